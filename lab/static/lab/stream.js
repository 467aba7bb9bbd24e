// The connection to the room's process: the stream of frames, the buttons, and a token for both.

export const settings = JSON.parse(document.getElementById("room-settings").textContent);
export const texts = JSON.parse(document.getElementById("room-texts").textContent);

export const format = (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
export const number = new Intl.NumberFormat(document.documentElement.lang);

const lost = document.querySelector("[data-lost]");
const problem = document.querySelector("[data-problem]");
let token = "";

// Renewed when a third of its life is left. While the shop does not answer, the old one is kept.
async function renew() {
  let pause = 5;
  try {
    const answer = await fetch("/room/token", { headers: { Accept: "application/json" } });
    if (answer.ok && !answer.redirected) {
      const told = await answer.json();
      token = told.token;
      pause = (told.lifetime * 2) / 3;
    }
  } catch {
    // Tried again below.
  }
  setTimeout(renew, pause * 1000);
}

export const fileAddress = (path) =>
  `${settings.url}/${path}?token=${encodeURIComponent(token)}`;

// Calls `hello` with the last minute and `frame` with every frame; again after each interruption.
export async function connect({ hello, frame, away }) {
  lost.textContent = texts.states.lost;
  await renew();
  const open = () => {
    const source = new EventSource(`${settings.url}/stream?token=${encodeURIComponent(token)}`);
    source.addEventListener("hello", (event) => {
      lost.hidden = true;
      hello(JSON.parse(event.data));
    });
    source.addEventListener("frame", (event) => frame(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      // Not left to the browser, which would try for ever with a token that has expired.
      source.close();
      lost.hidden = false;
      away();
      setTimeout(open, 1000);
    });
  };
  open();
}

export function showProblem(detail) {
  problem.textContent = detail;
  problem.hidden = !detail;
}

// Returns the answer for a path of the room's process; undefined if there is none, and says so.
export async function fetchFile(path) {
  if (!token) await renew();
  try {
    const answer = await fetch(`${settings.url}/${path}?token=${encodeURIComponent(token)}`);
    if (answer.ok) return answer;
    showProblem((await answer.json()).detail);
  } catch {
    showProblem(texts.states.lost);
  }
  return undefined;
}

export async function act(name, values = {}) {
  problem.hidden = true;
  let detail = "";
  try {
    const answer = await fetch(`${settings.url}/actions/${name}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify(values),
    });
    if (!answer.ok) detail = (await answer.json()).detail;
  } catch {
    detail = texts.states.lost;
  }
  showProblem(detail);
  return !detail;
}
