// The control room: shows the frames of the stream, and sends what the buttons say.

import { Chart, Figures, withHeld } from "./figures.js";
import { Scene } from "./scene.js";
import { act, connect, fileAddress, format, number, texts } from "./stream.js";

const find = (name) => document.querySelector(`[data-${name}]`);
const charts = {
  stock: new Chart(document.querySelector('[data-chart="stock"]'), ["available", "held", "sold", "oversold"]),
  rates: new Chart(document.querySelector('[data-chart="rates"]'), ["accepted", "refused", "failed"]),
  latency: new Chart(document.querySelector('[data-chart="latency"]'), ["p50", "p99"]),
  batch: new Chart(document.querySelector('[data-chart="batch"]'), ["batch"]),
};
const figures = new Figures(find("figures"), ["sold", "held", "available", "oversold", "requests", "p50", "p99"]);
const scene = new Scene(find("scene"));
let sale = null; // the shown one
let up = {}; // which servers answered last

// Only a change is written: a screen reader reads every writing aloud.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
const say = (name, text) => write(find(name), text);

// --- What is seen ------------------------------------------------------------------------------

// The fault that acts; one that is armed has done nothing yet.
const acting = (fault) => (fault && fault.phase !== "armed" ? fault.name : null);

function add(at, shown, rates, fault) {
  // Another sale's stock is another curve.
  if (shown && charts.stock.sale && shown.id !== charts.stock.sale) charts.stock.clear();
  charts.stock.sale = shown?.id ?? charts.stock.sale;
  charts.stock.add(at, shown ? withHeld(shown) : {}, fault);
  for (const name of ["rates", "latency", "batch"]) charts[name].add(at, rates, fault);
}

function showSale(frame) {
  const changed = frame.sale?.strategy !== sale?.strategy || frame.sale?.id !== sale?.id;
  sale = frame.sale;
  find("sale").textContent = sale ? `${sale.id} · ${localName(sale)} · ${sale.strategy}` : texts.verdict.no_sale;
  find("sale-state").textContent = sale ? state(sale) : "";
  find("pause").textContent = sale?.paused ? texts.states.resume : texts.states.pause;
  if (sale && changed) find("strategy").value = sale.strategy;
}

const localName = ({ name, names }) => names?.[document.documentElement.lang] || name;

function state({ starts_in: starts, ends_in: ends, paused }) {
  if (starts > 0) return format(texts.states.opens_in, { seconds: Math.ceil(starts) });
  if (ends <= 0) return texts.states.ended;
  return paused ? texts.states.is_paused : texts.states.open;
}

function showVerdict(frame) {
  const element = find("verdict");
  let [is, text] = ["good", texts.verdict.balanced];
  if (!frame.up.postgres) [is, text] = ["", texts.verdict.unknown];
  else if (!sale) [is, text] = ["", texts.verdict.no_sale];
  else if (sale.oversold) [is, text] = ["bad", format(texts.verdict.oversold_by, { units: number.format(sale.oversold) })];
  else if (sale.problems?.length) [is, text] = ["bad", texts.verdict.wrong];
  say("verdict", text);
  element.dataset.is = is;
  element.title = sale?.problems?.join("\n") ?? "";
}

function showLamps(lit) {
  for (const [name, up] of Object.entries(lit)) {
    let lamp = document.querySelector(`[data-lamp=${name}]`);
    if (!lamp) {
      lamp = document.createElement("li");
      lamp.dataset.lamp = name;
      lamp.textContent = texts.servers[name];
      find("lamps").append(lamp);
    }
    lamp.dataset.up = up;
  }
}

const programsUp = (programs) => Object.fromEntries(Object.entries(programs).map(([name, { up: runs }]) => [name, runs]));

function showChoice({ recent, follows }) {
  const select = find("watch");
  const wanted = recent.map((each) => [each.id, `${each.id} · ${each.strategy} · ${number.format(each.total)}`]);
  const key = JSON.stringify([wanted, follows, sale?.id]);
  if (select.dataset.key === key || document.activeElement === select) return;
  select.dataset.key = key;
  select.replaceChildren(new Option(texts.states.follow, ""), ...wanted.map(([id, text]) => new Option(text, id)));
  select.value = follows ? "" : sale?.id ?? "";
}

function showState({ rush, provider = "well" }) {
  for (const button of document.querySelectorAll("[data-start]")) button.disabled = Boolean(rush);
  for (const button of document.querySelectorAll("[data-behaviour]"))
    button.setAttribute("aria-pressed", button.dataset.behaviour === provider);
}

// What was pressed, what the shop does about it, and in a line of its own what is measured.
function showFault(frame) {
  const { fault, fault_over: over } = frame;
  const name = fault ? texts.faults[fault.name] ?? fault.name : "";
  const armed = fault?.phase === "armed" && texts.armed[fault.name];
  say("fault", fault ? `${name}.` : "");
  const then = armed || (fault ? texts.expected[fault.name] ?? "" : over ? sentence(over) : texts.states.unharmed);
  say("expected", then);
  find("measured").textContent = measured(frame).join(" · ");
  find("heal").disabled = !fault || fault.phase === "heals";
  for (const button of document.querySelectorAll("[data-inject]")) {
    button.disabled = Boolean(fault);
    button.toggleAttribute("data-current", fault?.name === button.dataset.inject);
  }
  const band = acting(fault) ? name : "";
  for (const element of document.querySelectorAll("[data-band]")) write(element, band);
}

function measured({ at, fault, silent, programs }) {
  const words = texts.measured;
  const told = Object.entries(silent).map(([server, seconds]) =>
    format(words.silent, { server: texts.servers[server], seconds: Math.floor(seconds) }));
  for (const [server, { up: runs, silent: seconds }] of Object.entries(programs))
    if (!runs) told.push(format(words.gone, { server: texts.servers[server], seconds: Math.floor(seconds) }));
  if (!fault) return told;
  const counts = fault.counts ?? {};
  if (fault.counts) told.push(format(words.sold, { count: number.format(counts.accepted) }));
  for (const name of ["without_lock", "failed", "stale"])
    if (counts[name]) told.push(format(words[name], { count: number.format(counts[name]) }));
  const left = Math.max(0, Math.ceil(fault.until - at));
  if (fault.phase === "heals") told.push(words.heals);
  else told.push(format(fault.phase === "armed" ? words.waits : words.heals_in, { seconds: left }));
  return told;
}

// --- The result --------------------------------------------------------------------------------

// The first section of the verdict's page, as the report shows it, with links to both of its files.
function showCard({ card }) {
  const key = JSON.stringify(card ?? null);
  const shown = find("card-result");
  if (shown.dataset.key === key) return;
  shown.dataset.key = key;
  find("card-none").hidden = Boolean(card);
  shown.innerHTML = card ? card.html[document.documentElement.lang] : "";
  if (!card) return;
  find("result-links").append(find("card-links").content.cloneNode(true));
  find("card-report").toggleAttribute("data-waits", card.verdict === "judging"); // it keeps its place
  find("card-report").href = fileAddress(`reports/rush/${card.run}`);
  find("card-history").href = fileAddress(`rushes/${card.run}`);
}

// --- Events ------------------------------------------------------------------------------------

const BAD = new Set(["away", "worker_gone", "program_gone", "fault_unused", "fault", "fault_failed", "oversold", "books_wrong", "rush_failed", "without_redis", "duel_failed", "record_failed"]);
const GOOD = new Set(["back", "worker_new", "program_new", "healed", "books_right", "with_redis", "stale_token"]);

function sentence({ code, values }) {
  const named = { ...values };
  if (values.server) named.server = texts.servers[values.server];
  if (values.fault) named.fault = texts.faults[values.fault] ?? values.fault;
  if (values.behaviour) named.behaviour = texts.behaviours[values.behaviour];
  return format(texts.events[code] ?? code, named);
}

function note(events) {
  const list = find("events");
  for (const event of events) {
    const [line, time, text] = ["li", "time", "span"].map((kind) => document.createElement(kind));
    const when = new Date(event.at * 1000);
    time.dateTime = when.toISOString();
    time.textContent = when.toLocaleTimeString(document.documentElement.lang, { hour12: false });
    text.textContent = sentence(event);
    if (BAD.has(event.code)) line.dataset.is = "bad";
    if (GOOD.has(event.code)) line.dataset.is = "good";
    line.append(time, text);
    list.prepend(line);
  }
  while (list.children.length > 100) list.lastElementChild.remove();
}

// --- The stream --------------------------------------------------------------------------------

function faultButton(name) {
  const button = document.createElement("button");
  button.className = "button quiet";
  button.textContent = texts.faults[name] ?? name;
  return button;
}

function offer(faults, missing) {
  find("fault-panel").hidden = !faults.length;
  find("missing-panel").hidden = !missing.length;
  find("faults").replaceChildren(...faults.map((name) => {
    const button = faultButton(name);
    button.dataset.inject = name;
    return button;
  }));
  // The others: disabled, with what they lack and the command that has it.
  const groups = Map.groupBy(missing, ({ lack, command }) => `${texts.lacks[lack] ?? lack} ${command}`);
  find("missing").replaceChildren(...[...groups.values()].flatMap((group) => {
    const [line, why, command] = ["p", "p", "code"].map((kind) => document.createElement(kind));
    line.className = "buttons";
    line.append(...group.map(({ fault }) => Object.assign(faultButton(fault), { disabled: true })));
    why.className = "helptext";
    command.textContent = group[0].command;
    why.append(`${format(texts.states.lacking, { why: texts.lacks[group[0].lack] ?? group[0].lack })} `, command);
    return [line, why];
  }));
}

connect({
  hello({ history, events, faults, missing }) {
    for (const chart of Object.values(charts)) chart.clear();
    find("events").replaceChildren();
    offer(faults, missing);
    for (const { at, sale: shown, rates, fault } of history) add(at, shown, rates, fault);
    for (const { rates } of history) figures.show(rates);
    note(events);
  },
  frame(frame) {
    up = frame.up;
    showSale(frame);
    add(frame.at, frame.sale, frame.rates, acting(frame.fault));
    for (const chart of Object.values(charts)) chart.show();
    const { accepted, refused, failed } = frame.rates;
    figures.show({ ...(sale && withHeld(sale)), ...frame.rates, requests: accepted + refused + failed });
    scene.show(frame, sale);
    showVerdict(frame);
    showLamps({ ...up, ...programsUp(frame.programs), room: true });
    find("lamps").dataset.at = frame.at;
    showChoice(frame);
    showState(frame);
    showFault(frame);
    showCard(frame);
    note(frame.events);
  },
  away() {
    showLamps({ room: false });
  },
});

// --- Buttons -----------------------------------------------------------------------------------

const values = (form) => Object.fromEntries(new FormData(form));

document.querySelector('[data-action="rush"]').addEventListener("submit", (event) => {
  event.preventDefault();
  const { buyers, arrivals, mix, where, stock, strategy } = values(event.target);
  const wanted = { buyers: Number(buyers), arrivals: Number(arrivals), mix };
  if (where === "this") act("rush", { ...wanted, sale: sale?.id });
  else act("rush", { ...wanted, stock: Number(stock), strategy });
});

// A preset fills in the numbers, and a changed number belongs to no preset.
const rush = document.getElementById("rush");
const presets = [...document.querySelectorAll("[data-preset]")];

function showWanted() {
  const { buyers, arrivals, stock } = values(rush);
  for (const button of presets) {
    const wanted = button.dataset;
    button.setAttribute("aria-pressed", wanted.buyers === buyers && wanted.arrivals === arrivals && wanted.stock === stock);
  }
  const text = Number(arrivals) ? texts.states.wanted : texts.states.wanted_at_once;
  say("wanted", format(text, { buyers: number.format(buyers), arrivals, stock: number.format(stock) }));
}

for (const button of presets)
  button.addEventListener("click", () => {
    for (const name of ["buyers", "arrivals", "stock"]) rush.elements[name].value = button.dataset[name];
    showWanted();
  });
rush.addEventListener("input", showWanted);
showWanted();

document.querySelector('[data-action="strategy"]').addEventListener("submit", (event) => event.preventDefault());
find("strategy").addEventListener("change", (event) => act("strategy", { sale: sale?.id, strategy: event.target.value }));
find("watch").addEventListener("change", ({ target }) => {
  act("watch", { sale: target.value ? Number(target.value) : null });
  target.blur(); // from now on the choice follows what is shown
});

const BUTTONS = {
  stop: () => act("stop"),
  heal: () => act("heal"),
  restock: ({ units }) => act("restock", { sale: sale?.id, units: Number(units) }),
  pause: () => act("pause", { sale: sale?.id, paused: !sale?.paused }),
  provider: ({ behaviour }) => act("provider", { behaviour }),
};

document.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button?.dataset.do) BUTTONS[button.dataset.do](button.dataset);
  if (button?.dataset.inject) act("inject", { fault: button.dataset.inject, sale: sale?.id ?? null });
});
