// The duel: two sales side by side, from the same stream as the control room.

import { Chart, Figures } from "./figures.js";
import { act, connect, format, number, reportAddress, texts } from "./stream.js";

const sides = [...document.querySelectorAll("[data-side]")].map((element) => {
  const find = (name) => element.querySelector(`[data-${name}]`);
  return {
    find,
    sale: null,
    figures: new Figures(find("counters"), ["available", "reserved", "oversold"]),
    chart: new Chart(find("chart"), ["available", "reserved", "oversold"], 260),
  };
});

function add(frame, duel) {
  duel?.sides.forEach(({ sale: id }, index) => {
    const side = sides[index];
    if (side.sale !== id) side.chart.clear();
    side.sale = id;
    const sale = frame.sales.find((each) => each.id === id);
    if (sale) side.chart.add(frame.at, sale);
  });
}

// Both bars have one scale: `whole` units wide.
function showBar(side, sale, whole) {
  const over = sale.oversold;
  const width = (units) => `${(100 * Math.max(0, units)) / (whole || 1)}%`;
  side.find("bar").querySelector(".bar-sold").style.width = width(sale.reserved - over);
  side.find("bar").querySelector(".bar-over").style.width = width(over);
  side.find("bar").setAttribute("aria-label", `${texts.figures.reserved}: ${number.format(sale.reserved)} / ${number.format(sale.total)}`);
}

function showVerdict(side, { outcome, oversold, report }, sale) {
  const element = side.find("verdict");
  let [is, text] = ["", ""];
  if (outcome === "pass") [is, text] = ["good", texts.verdict.pass];
  else if (outcome === "fail") [is, text] = ["bad", `${texts.verdict.fail}. ${format(texts.verdict.oversold_by, { units: number.format(oversold) })}`];
  else if (outcome) text = texts.verdict.not_judged;
  else if (sale?.oversold) [is, text] = ["bad", format(texts.verdict.oversold_by, { units: number.format(sale.oversold) })];
  if (element.textContent !== text) element.textContent = text;
  element.dataset.is = is;
  const link = side.find("report");
  link.hidden = !report;
  if (report) link.href = reportAddress(report);
}

const start = document.querySelector('[data-action="duel"] .button');

function show(frame) {
  start.disabled = Boolean(frame.duel?.going);
  const whole = Math.max(...frame.sales.map((sale) => Math.max(1.5 * sale.total, sale.reserved)));
  frame.duel?.sides.forEach((told, index) => {
    const side = sides[index];
    const sale = frame.sales.find((each) => each.id === told.sale);
    side.find("name").textContent = told.strategy;
    const phase = told.outcome ? "" : texts.states[told.phase ?? "starting"] ?? "";
    if (side.find("phase").textContent !== phase) side.find("phase").textContent = phase;
    if (sale) {
      side.figures.show(sale);
      showBar(side, sale, whole);
      side.chart.show();
    }
    showVerdict(side, told, sale);
  });
}

connect({
  hello({ history, duel }) {
    history.forEach((each) => add(each, duel));
  },
  frame(frame) {
    add(frame, frame.duel);
    show(frame);
  },
  away() {},
});

document.querySelector('[data-action="duel"]').addEventListener("submit", (event) => {
  event.preventDefault();
  const { first, second, buyers, stock } = Object.fromEntries(new FormData(event.target));
  act("duel", { strategies: [first, second], buyers: Number(buyers), stock: Number(stock) });
});
document.querySelector('[data-do="stop"]').addEventListener("click", () => act("stop"));
