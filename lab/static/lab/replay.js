// Slow motion: the recorded rushes of the room, and files from elsewhere, in the player.

import { fetchFile, showProblem } from "./stream.js";

const find = (name) => document.querySelector(`[data-${name}]`);
const player = new ReplayPlayer(find("player"));

function open(text) {
  try {
    player.open(text);
  } catch (error) {
    if (!(error instanceof ReplayError)) throw error;
    showProblem(error.message);
    return;
  }
  showProblem("");
  find("title").textContent = player.replay.title;
}

async function openRush(number) {
  const answer = await fetchFile(`replays/${number}`);
  if (answer) open(await answer.text());
}

async function list() {
  const answer = await fetchFile("replays/");
  if (!answer) return;
  const { replays } = await answer.json();
  const select = find("rush");
  for (const { number, title } of replays) select.add(new Option(title, number));
  const wanted = new URLSearchParams(location.search).get("rush") ?? replays[0].number;
  select.value = wanted;
  await openRush(wanted);
}

find("rush").addEventListener("change", ({ target }) => openRush(target.value));
find("file").addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  if (file) open(await file.text());
});
list();
