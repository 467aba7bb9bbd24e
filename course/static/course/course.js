// The lock lab. The server computes every position from the moves in the address's fragment,
// `#A.B*3` or `#mended/A`; this script shows it and adds moves. Steps back are shorter fragments.

const data = JSON.parse(document.getElementById("lab").textContent);
const part = (name) => document.querySelector(`[data-${name}]`);
const say = (name, values = {}) =>
  data.texts[name].replace(/%\((\w+)\)s/g, (_, value) => values[value]);

function element(tag, { dataset = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

// Progress: stored on the server for a visitor who is signed in, else in this browser

let all = {};
try {
  all = JSON.parse(localStorage.getItem("lock-lab")) ?? {};
} catch {} // storage is off or holds something else
Object.assign(all, data.done ?? {});

function solve(id, count, moves) {
  const known = id in all;
  all[id] = Math.min(count, all[id] ?? Infinity);
  try {
    localStorage.setItem("lock-lab", JSON.stringify(all));
  } catch {} // the challenge is won all the same
  showProgress();
  if (!known || !(id in (data.done ?? {}))) tell(moves);
}

// The server plays the moves itself before it notes them; for a visitor it notes nothing.
function tell(moves) {
  const body = new FormData(part("token"));
  body.set("moves", moves);
  fetch(data.broken, { method: "POST", body }).catch(() => {}); // kept in this browser
}

function showProgress() {
  const challenges = [...document.querySelectorAll("[data-challenge]")];
  const won = challenges.filter((one) => one.dataset.challenge in all);
  for (const one of won) one.querySelector(".tick").hidden = false;
  const values = { done: won.length, total: challenges.length };
  if (part("progress")) part("progress").textContent = say("progress", values);
}

// Moves

const words = (text) => (text ? text.split(".") : []);
const split = (word) => [word.split("*")[0], Number(word.split("*")[1] ?? 1)];
const repeated = (move, times) => (times > 1 ? `${move}*${times}` : move);
const count = (moves) => words(moves).reduce((sum, word) => sum + split(word)[1], 0);

function plus(moves, move) {
  const [last, times] = split(words(moves).at(-1) ?? "");
  const before = last === move ? words(moves).slice(0, -1) : words(moves);
  return [...before, repeated(move, last === move ? times + 1 : 1)].join(".");
}

function minus(moves) {
  const [last, times] = split(words(moves).at(-1) ?? "");
  const before = words(moves).slice(0, -1);
  return (times > 1 ? [...before, repeated(last, times - 1)] : before).join(".");
}

function place() {
  const text = decodeURIComponent(location.hash.slice(1));
  const mended = text.startsWith("mended/");
  return { lock: mended ? "mended" : "broken", moves: mended ? text.slice(7) : text };
}

function go(lock, moves) {
  const fragment = lock === "mended" ? `mended/${moves}` : moves;
  if (`#${fragment}` === decodeURIComponent(location.hash || "#")) show();
  else location.hash = fragment; // and `hashchange` shows it
}

// A position

let film = null; // the moves of "show me", and how many of them have been played
let helped = false; // the visitor has seen the solution, so it wins nothing
let asked = 0;

async function show() {
  const { lock, moves } = place();
  const mine = ++asked;
  const position = await fetch(`${data.at}?${new URLSearchParams({ lock, moves })}`)
    .then((answer) => answer.json()).catch(() => ({ error: say("offline") }));
  if (mine !== asked) return; // a later one is on its way
  if (position.error) return verdict("error", say("impossible", { why: position.error }));
  for (const one of document.querySelectorAll(".which")) one.hidden = one.dataset.lock !== lock;
  showVerdict(position, lock, moves);
  for (const view of [showLanes, showKeys, showBars, showHistory, showFilm]) view(position);
  part("lab").dataset.shown = `${lock}/${moves}`;
  return undefined;
}

function verdict(kind, ...lines) {
  part("verdict").dataset.kind = kind;
  part("verdict").replaceChildren(...lines.map((line) => element("p", { textContent: line })));
}

function showVerdict(position, lock, moves) {
  const lines = [say("now", { now: position.now.toFixed(3), count: count(moves) })];
  const fatal = position.violations.find((one) => one.wrong === data.wrong);
  const others = [...new Set(position.violations.filter((one) => one.wrong !== data.wrong)
    .map((one) => say("also", { why: `${data.wrongs[one.wrong]}: ${one.why}` })))];
  const ended = lock === "mended" ? "good" : "calm";
  part("lab").dataset.is = fatal ? "broken" : "";
  const kind = fatal ? "bad" : others.length ? "warn" : position.over ? ended : "calm";
  if (fatal) {
    lines.unshift(say("broken", { why: `${data.wrongs[fatal.wrong]}: ${fatal.why}` }));
    if (lock === "broken") lines.push(say(helped ? "shown" : "solved", { count: count(moves) }));
    if (lock === "broken" && !helped) solve(data.id, count(moves), moves);
    if (lock === "broken") part("why").open = true;
  } else if (position.over) {
    lines.unshift(say(lock === "mended" ? "held" : "unbroken"));
  }
  verdict(kind, ...lines, ...others);
}

function state({ inside, state, until }) {
  if (inside && state === "done") return say("holds"); // the run was stopped
  if (state !== "waiting") return say(state, { until: until?.toFixed(3) });
  if (until === null) return say(inside ? "holds" : "asleep");
  return say(inside ? "works" : "waiting", { until: until.toFixed(3) });
}

const button = (move, label, enabled, className = "button quiet") => element("button",
  { type: "button", disabled: !enabled, textContent: label, className, dataset: { move } });

const FRAMES = { "lose-message": "?", "lose-request": "<", "lose-reply": ">" };

// Each client has its own copy of the code, with the line marked that it runs next.
function copyOfCode({ name, file, line, code }) {
  const source = data.sources[file];
  if (!source) return element("code", { className: "python", textContent: code });
  const lines = source.map((text, i) => element("span",
    { className: i + 1 === line ? "line at" : "line", textContent: `${text || " "}\n` }));
  return element("pre", { className: "code", tabIndex: 0, ariaLabel: name }, ...lines);
}

function lane(client, over) {
  const living = !["dead", "done", "new"].includes(client.state) && !over;
  const able = client.state === "ready" && living, values = { client: client.name };
  const actions = element("div", { className: "actions" },
    button(client.name, say("step", values), able, "button"),
    button(`${client.name}~`, say("pause", values), living && client.state !== "paused"),
    button(`${client.name}!`, say("kill", values), living));
  for (const [act, mark] of Object.entries(FRAMES)) {
    if (data.acts.includes(act)) actions.append(button(client.name + mark, say(act, values), able));
  }
  const shown = ["dead", "new", "done"].includes(client.state) ? [] : [copyOfCode(client)];
  return element("article", { className: "lane", dataset: { client: client.name, state: client.state } },
    element("h3", {}, client.name, element("span", { className: "state", textContent: state(client) })),
    actions,
    element("code", { className: "command", textContent: client.command }),
    ...shown);
}

function showLanes(position) {
  const until = position.next_event?.toFixed(3);
  const world = [button("+", until ? say("until", { until }) : say("no_event"), Boolean(until))];
  for (const act of ["fail-over", "evict", "clock-jump"]) {
    const ready = position.clients.some((client) => client.state === "ready") && !position.over;
    if (data.acts.includes(act)) world.push(button(act, say(act), ready));
  }
  // The buttons are made anew, so the focus moves to the same one, or to the first that is enabled.
  const { move } = document.activeElement.dataset;
  part("lanes").replaceChildren(...position.clients.map((client) => lane(client, position.over)));
  part("world").replaceChildren(...world);
  const enabled = [...document.querySelectorAll("[data-move]:enabled")];
  if (move) (enabled.find((one) => one.dataset.move === move) ?? enabled[0])?.focus();
  for (const code of document.querySelectorAll(".lane .code")) {
    const line = code.querySelector(".at") ?? [...code.children].find((one) => /^class /.test(one.textContent));
    if (line) code.scrollTop = line.offsetTop - code.clientHeight / 3;
  }
}

function showKeys(position) {
  const many = new Set(position.keys.map((one) => one.server)).size > 1;
  const rows = position.keys.flatMap((one) => [
    element("dt", { textContent: (many ? `${one.server}: ` : "") + one.key }),
    element("dd", {}, element("code", { textContent: one.value }), " ",
      element("span", { className: "left", textContent:
        one.left !== null ? say("expires", { left: one.left.toFixed(3) }) : data.lock ? say("forever") : "" })),
  ]);
  part("keys").replaceChildren(...(rows.length ? rows : [element("dt", { textContent: say("empty") }), element("dd")]));
}

// Ownership in time

function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const WIDTH = 900, LEFT = 150, ROW = 30;

// A day and a millisecond fit one picture: a gap is as wide as the logarithm of its length.
function scale(times) {
  const sorted = [...new Set([0, ...times])].sort((a, b) => a - b);
  const at = new Map([[0, 0]]);
  let sum = 0;
  sorted.slice(1).forEach((time, i) => at.set(time, sum += 0.3 + Math.log1p(20 * (time - sorted[i]))));
  return (time) => LEFT + (at.get(time) / (sum || 1)) * (WIDTH - LEFT - 20);
}

function showBars(position) {
  const names = [...position.clients.map((one) => one.name), ...position.bars.map((bar) => bar.who)];
  const lanes = [...new Set(names)];
  const x = scale([position.now, ...position.bars.flatMap((bar) => [bar.begin, bar.end])]);
  const height = lanes.length * ROW + 24;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
  picture.append(svg("title", {}, document.getElementById("bars-heading").textContent));
  lanes.forEach((who, i) => {
    picture.append(svg("text", { x: 0, y: i * ROW + 19 }, who));
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - 20, y1: i * ROW + 15, y2: i * ROW + 15 }));
  });
  const held = position.bars.filter((bar) => bar.kind === "client");
  held.forEach((bar, i) => held.slice(i + 1).forEach((other) => {
    const begin = Math.max(bar.begin, other.begin), end = Math.min(bar.end, other.end);
    if (begin > end || bar.who === other.who) return;
    picture.append(svg("rect", { class: "both", x: x(begin) - 2, y: 0, height: lanes.length * ROW,
      width: Math.max(4, x(end) - x(begin) + 4) }));
  }));
  for (const bar of position.bars) {
    const y = lanes.indexOf(bar.who) * ROW + 5;
    const width = Math.max(4, x(bar.end) - x(bar.begin));
    const made = svg("rect",
      { class: bar.kind, "data-client": bar.who, x: x(bar.begin), y, width, height: 20, rx: 4 });
    made.append(svg("title", {}, `${bar.who} ${bar.value} ${bar.begin.toFixed(3)}–${bar.end.toFixed(3)} s`));
    picture.append(made);
    const room = Math.floor(width / 8);
    if (bar.kind === "key" && room > 2) {
      const at = { class: "value", x: x(bar.begin) + 6, y: y + 14 };
      picture.append(svg("text", at, bar.value.slice(0, room)));
    }
  }
  const end = { x: WIDTH - 20, y: height - 4, "text-anchor": "end" };
  picture.append(svg("text", end, `${position.now.toFixed(3)} s`));
  part("bars").replaceChildren(picture);
}

// History

const MARKS = { enter: "→ ", leave: "← ", fault: "! ", violation: "✗ ", given: "• " };

function showHistory(position) {
  const lines = position.history.map((row) => {
    const more = { className: "more", textContent: say("more", { ...row, at: row.at.toFixed(3) }) };
    if (row.kind === "more") return element("li", more);
    return element("li", { dataset: { kind: row.kind } },
      element("time", { textContent: row.at.toFixed(3) }), " ",
      element("b", { textContent: row.client || row.server, dataset: { client: row.client } }), " ",
      `${MARKS[row.kind] ?? ""}${row.what}`,
      ...(row.answer ? [element("span", { className: "answer", textContent: ` ⇒ ${row.answer}` })] : []));
  });
  part("history").replaceChildren(...lines);
  part("history").scrollTop = part("history").scrollHeight;
}

// Show me

function start(lock) {
  film = { lock, moves: words(data.moves[lock]), at: 0, timer: 0 };
  helped = true;
  go(lock, "");
}

function stop() {
  clearInterval(film?.timer);
  if (film) film.timer = 0;
}

function next() {
  film.at += 1;
  if (film.at >= film.moves.length) stop();
  go(film.lock, film.moves.slice(0, film.at).join("."));
}

function play() {
  if (film.timer) stop();
  else film.timer = setInterval(next, 1400);
  showFilm();
}

function showFilm() {
  part("film").hidden = !film;
  if (!film) return;
  const { at, moves } = film;
  part("frame").textContent = say("frame", { at, count: moves.length, move: moves[at - 1] ?? "" });
  const [onward, playing] = part("film").querySelectorAll("button");
  onward.disabled = playing.disabled = at >= moves.length;
  playing.textContent = say(film.timer ? "stop" : "play");
}

// The visitor's choices

const leave = () => { stop(); film = null; };
const acts = {
  undo() { leave(); const { lock, moves } = place(); go(lock, minus(moves)); },
  reset() { leave(); helped = false; go("broken", ""); },
  broken() { leave(); helped = false; go("broken", ""); },
  show: () => start(place().lock),
  mended: () => start("mended"),
  next, play,
};

function onClick(event) {
  const chosen = event.target.closest("[data-move], [data-act]");
  if (!chosen || chosen.disabled) return;
  const { lock, moves } = place();
  if (chosen.dataset.act) return acts[chosen.dataset.act]();
  leave();
  go(lock, plus(moves, chosen.dataset.move));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea")) return;
  const key = event.key.toLowerCase();
  const steps = [...document.querySelectorAll("[data-move]:enabled")];
  const act = { u: "undo", n: "next" }[key];
  const chosen = act ? document.querySelector(`[data-act=${act}]:enabled`)
    : steps.find(({ dataset: { move } }) => move === (key === "t" ? "+" : move.match(/^\w+$/)?.[0])
      && (key === "t" || move[0].toLowerCase() === key));
  if (chosen && (act !== "next" || film)) chosen.click();
}

// What became of the rush on a real database, which follows where a lesson has one.
function shownRush(rush) {
  if (!rush) return [];
  const lines = [rush.unheld ? say("unheld", { why: rush.unheld }) : rush.wrong, rush.text];
  const className = rush.wrong ? "notice error" : "notice";
  return [element("p", { className, textContent: lines.filter(Boolean).join(". ") }),
    ...(rush.output ? [element("pre", { textContent: rush.output, className: "output" })] : [])];
}

async function search(event) {
  event.preventDefault();
  const form = event.target, result = part("result"), send = form.querySelector("button");
  result.textContent = say("searching");
  send.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
    const found = await answer.json();
    const problem = found.error || found.wrong;
    result.replaceChildren(
      element("p", { className: problem ? "notice error" : "notice",
        textContent: problem || say("passed", { tried: found.tried }) }),
      ...shownRush(found.rush),
      ...(problem || found.rush?.wrong || !data.next ? [] : [element("p", {},
        element("a", { className: "button", href: data.next.url, textContent: say("next", data.next) }))]),
      ...(found.output ? [element("p", { textContent: say("output") }),
        element("pre", { textContent: found.output, className: "output" })] : []),
      ...(found.timeline ? [element("p", { textContent: found.how }),
        element("pre", { textContent: found.timeline })] : []),
      ...(found.weaker ? [element("p", { className: "hint", textContent: found.weaker })] : []));
  } catch {
    result.textContent = say("offline");
  }
  send.disabled = false;
}

showProgress();
if (part("lab")) {
  part("lab").hidden = false;
  part("lab").addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", show);
  part("mine")?.addEventListener("submit", search);
  show();
}
