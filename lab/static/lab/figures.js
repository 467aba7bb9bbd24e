// Line charts of the last minute, and large figures.

import { number, texts } from "./stream.js";

const WINDOW = 60;
const LEGEND = 28; // pixels

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const COLOURS = {
  available: "--c-available", held: "--c-held", sold: "--c-sold", reserved: "--c-sold",
  oversold: "--c-over", accepted: "--c-sold", refused: "--c-refused", failed: "--c-over",
  p50: "--c-available", p99: "--c-refused", batch: "--c-available",
};
// So that lines differ without their colours too.
const DASHES = { held: [8, 5], oversold: [3, 3], refused: [8, 5], failed: [3, 3], p99: [8, 5] };

// A line chart as high as its element. While a fault lasts, a band lies behind the lines; its name
// stands in the caption, where it covers none of them.
export class Chart {
  constructor(element, names) {
    this.element = element;
    this.names = names;
    this.rows = [];
    this.draw();
    new ResizeObserver(() => this.plot.setSize(this.size)).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  get size() {
    const legend = this.names.length > 1 ? LEGEND : 0;
    return { width: Math.max(200, this.element.clientWidth), height: this.element.clientHeight - legend };
  }

  draw() {
    this.plot?.destroy();
    const text = colour("--text");
    const axis = {
      stroke: text, font: "14px system-ui, sans-serif", grid: { stroke: colour("--line") }, ticks: { show: false },
    };
    const values = (_, ticks) => ticks.map((tick) => (tick % 1 ? tick : number.format(tick)));
    this.plot = new uPlot({
      ...this.size,
      scales: {
        x: { time: false, range: () => [-WINDOW, 0] },
        y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.08] },
      },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, { ...axis, size: 58, values }],
      cursor: { show: false },
      hooks: {
        drawClear: [(plot) => this.drawBands(plot)],
      },
      legend: { live: false, show: this.names.length > 1 },
      series: [{}, ...this.names.map((name) => ({
        label: texts.figures[name], stroke: colour(COLOURS[name]), width: 3, dash: DASHES[name], spanGaps: false,
      }))],
    }, this.data(), this.element);
  }

  // `at` in seconds; `values` by name; `fault` is the one of that moment. A gap in time, in which
  // nothing was seen, is a gap in the line.
  add(at, values, fault) {
    this.rows.push({ at, fault, values: this.names.map((name) => values[name] ?? null) });
    while (this.rows.length && this.rows[0].at < at - WINDOW - 1) this.rows.shift();
  }

  show() {
    this.plot.setData(this.data());
    this.element.dataset.bands = this.bands().map(({ fault }) => fault).join(" ");
  }

  bands() {
    const found = [];
    let before;
    for (const { at, fault } of this.rows) {
      if (fault && fault === before) found.at(-1).to = at;
      else if (fault) found.push({ fault, from: at, to: at });
      before = fault;
    }
    return found;
  }

  drawBands(plot) {
    const { ctx, bbox, valToPos } = plot;
    const position = (at) => valToPos.call(plot, at - this.rows.at(-1).at, "x", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const { from, to } of this.bands()) this.drawBand(plot, { left: position(from), right: position(to) });
    ctx.restore();
  }

  drawBand({ ctx, bbox }, { left, right }) {
    ctx.fillStyle = colour("--c-band");
    ctx.fillRect(left, bbox.top, Math.max(3, right - left), bbox.height);
  }

  clear() {
    this.rows = [];
  }

  data() {
    const end = this.rows.at(-1)?.at ?? 0;
    return [this.rows.map(({ at }) => at - end), ...this.names.map((_, index) => this.rows.map(({ values }) => values[index]))];
  }
}

// A row of large figures with their names.
export class Figures {
  constructor(element, names) {
    this.parts = Object.fromEntries(names.map((name) => {
      const part = document.createElement("div");
      const value = document.createElement("strong");
      const label = document.createElement("span");
      part.className = "figure";
      part.dataset.name = name;
      label.textContent = texts.figures[name];
      value.textContent = "–";
      part.append(label, value);
      element.append(part);
      return [name, value];
    }));
  }

  // What is not known now stays as it was.
  show(values) {
    for (const [name, element] of Object.entries(this.parts)) {
      const value = values[name];
      if (value != null) element.textContent = number.format(Math.round(value));
      element.parentElement.toggleAttribute("data-bad", name === "oversold" && value > 0);
    }
  }
}

// What a sale's row says beyond what the database counts: units that are held and not yet sold.
export const withHeld = (sale) => ({ ...sale, held: Math.max(0, (sale.reserved ?? 0) - (sale.sold ?? 0)) });
