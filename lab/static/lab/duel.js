// The duel: two sales with the same buyers, recorded one after the other, played side by side.

import { act, connect, fetchFile, fileAddress, format, number, showProblem, texts } from "./stream.js";

const sides = [...document.querySelectorAll("[data-side]")].map((element) => {
  const find = (name) => element.querySelector(`[data-${name}]`);
  return { element, find };
});
const find = (name) => document.querySelector(`[data-${name}]`);
const player = new ReplayPlayer(find("player"), sides.map((side) => side.find("view")));
let run = 0; // the one that was seen to be going

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showEnd(side, { strategy, outcome, orders, oversold, sold_out_ms: soldOut }) {
  say(side.find("name"), strategy);
  const verdict = side.find("verdict");
  const beyond = format(texts.verdict.oversold_by, { units: number.format(oversold) });
  const ends = {
    pass: ["good", texts.verdict.pass],
    fail: ["bad", oversold ? `${texts.verdict.fail} · ${beyond}` : texts.verdict.fail],
  };
  const [is, text] = ends[outcome] ?? ["", texts.verdict.not_judged];
  say(verdict, text);
  verdict.dataset.is = is;
  const within = soldOut ? format(texts.states.within, { orders: number.format(orders), ms: number.format(soldOut) }) : "";
  say(side.find("within"), within);
}

async function open() {
  const answer = await fetchFile("duel");
  if (!answer) return;
  const duel = await answer.json();
  const { recorded, buyers, units, machine, command } = duel;
  const values = { recorded, machine, command, buyers: number.format(buyers), units: number.format(units) };
  find("recorded").textContent = format(texts.states.recorded, values);
  find("recorded").title = format(texts.states.recorded, values);
  for (const side of sides) side.element.hidden = false;
  try {
    player.open(...duel.sides.map(({ replay }) => JSON.stringify(replay)));
  } catch (error) {
    if (!(error instanceof ReplayError)) throw error;
    showProblem(error.message);
  }
  duel.sides.forEach((told, index) => showEnd(sides[index], told));
}

function progress({ strategy, phase = "waiting", taken, units }) {
  const told = `${strategy}: ${texts.states[phase] ?? phase}`;
  return units ? `${told}, ${format(texts.states.taken, { taken: number.format(taken), units: number.format(units) })}` : told;
}

// While a new one is being recorded, the last one stays.
function show({ duel }) {
  find("start").disabled = Boolean(duel?.going);
  find("going").hidden = !duel?.going;
  if (duel?.going) {
    say(find("going"), duel.sides.map(progress).join(" · "));
    ({ run } = duel);
    return;
  }
  duel?.sides.forEach(({ report }, index) => {
    const link = sides[index].find("report");
    link.hidden = !report;
    if (report) link.href = fileAddress(`reports/${report}`);
  });
  if (run && duel?.run === run) {
    run = 0;
    open();
  }
}

connect({ hello() {}, frame: show, away() {} });
open();

document.querySelector('[data-action="duel"]').addEventListener("submit", (event) => {
  event.preventDefault();
  const { first, second, buyers, stock } = Object.fromEntries(new FormData(event.target));
  act("duel", { strategies: [first, second], buyers: Number(buyers), stock: Number(stock) });
});
document.querySelector('[data-do="stop"]').addEventListener("click", () => act("stop"));
