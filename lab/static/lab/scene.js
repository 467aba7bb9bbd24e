// The mechanism: web processes with their queues, the item's lock, the transaction, row and outbox.

import { format, number, texts } from "./stream.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_PROCESSES = 4;
const MOST_DOTS = 6;
const WORDS = texts.scene;
const still = matchMedia("(prefers-reduced-motion: reduce)");

function make(parent, kind, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

const LOCK = { x: 216, y: 40, width: 180, height: 172 };
const COMMIT = { x: 432, y: 40, width: 202, height: 80 };
const ROW = { x: 432, y: 160, width: 202, height: 84 };
const OUTBOX = { x: 432, y: 284, width: 202, height: 84 };

export class Scene {
  constructor(svg) {
    this.wires = make(svg, "g");
    this.boxes = make(svg, "g");
    this.dots = make(svg, "g");
    this.commits = 0;
  }

  show(frame, sale) {
    this.wires.replaceChildren();
    this.boxes.replaceChildren();
    const lock = sale ? frame.lock : undefined;
    const used = Boolean(sale?.locked);
    this.showProcesses(frame.web.slice(0, MOST_PROCESSES), used ? lock : undefined, used);
    this.showLock(frame, sale, lock, used);
    this.showRow(frame, sale);
    this.move(frame.rates.batches || 0);
  }

  box({ x, y, width, height }, title, lines, kind = "") {
    make(this.boxes, "rect", { x, y, width, height, rx: 12, class: `box ${kind}` });
    if (title) make(this.boxes, "text", { x: x + 14, y: y + 26, class: "strong" }, title);
    lines.forEach(([text, style = ""], index) =>
      make(this.boxes, "text", { x: x + 14, y: y + 50 + 22 * index, class: style }, text));
  }

  wire(x1, y1, x2, y2, kind = "") {
    make(this.wires, "path", { d: `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`, class: `wire ${kind}` });
  }

  showProcesses(web, lock, used) {
    if (used) make(this.boxes, "text", { x: 8, y: 22, class: "faint" }, WORDS.buyers);
    const height = 76;
    this.exits = [];
    web.forEach((process, index) => {
      const y = 40 + index * (height + 12);
      const place = lock?.waiters.indexOf(process.pid) ?? -1;
      const holds = lock?.holder === process.pid;
      const off = process.state === "stopped" || process.without_redis;
      const kind = off ? "off" : holds ? "holds" : place >= 0 ? "waits" : "";
      this.box({ x: 8, y, width: 172, height }, `${process.pid}${place >= 0 ? `  (${place + 1}.)` : ""}`, []);
      this.boxes.lastElementChild.previousElementSibling.setAttribute("class", `box ${kind}`);
      const state = process.state === "stopped" ? WORDS.stopped : process.without_redis ? WORDS.degraded : "";
      if (state) make(this.boxes, "text", { x: 172, y: y + 66, class: "bad", "text-anchor": "end" }, state);
      // A circle for each buyer, as many as there is room for.
      for (let buyer = 0; buyer < Math.min(process.waiting, 14); buyer += 1)
        make(this.boxes, "circle", { cx: 26 + buyer * 11, cy: y + 40, r: 4.5, class: "queue" });
      make(this.boxes, "text", { x: 22, y: y + 66, class: "faint" }, format(WORDS.waiting, { count: number.format(process.waiting) }));
      this.wire(180, y + height / 2, used ? LOCK.x : COMMIT.x, used ? LOCK.y + 70 : COMMIT.y + 40, holds ? "holds" : "");
      if (holds || !used) this.exits.push(y + height / 2);
    });
  }

  showLock(frame, sale, lock, used) {
    if (!sale) return;
    const lines = [];
    let kind = "";
    if (!used) {
      make(this.boxes, "text", { x: 8, y: 22, class: "faint", "text-anchor": "start" }, format(WORDS.unlocked, sale));
      return;
    }
    if (!lock) {
      kind = "off";
      make(this.boxes, "text", { x: 8, y: 384, class: "bad" }, WORDS.unreachable);
    } else if (lock.holder) {
      kind = "holds";
      lines.push([format(WORDS.holder, { pid: lock.holder })], [WORDS.token, "faint"], [String(lock.token)]);
      lines.push([format(WORDS.lease, { seconds: lock.remaining.toFixed(1) }), "faint"]);
    } else {
      lines.push([WORDS.free, "faint"]);
    }
    this.box(LOCK, WORDS.lock, lines, kind);
    this.wire(LOCK.x + LOCK.width, LOCK.y + 70, COMMIT.x, COMMIT.y + 40, kind === "holds" ? "holds" : "");
    if (!lock) return;
    const share = lock.holder ? Math.min(1, lock.remaining / lock.lease) : 0;
    const bar = { x: LOCK.x + 14, y: LOCK.y + 146, height: 10, rx: 5 };
    make(this.boxes, "rect", { ...bar, width: 152, class: "lease-ground" });
    make(this.boxes, "rect", { ...bar, width: 152 * share, class: "lease" });
    const line = lock.waiters.length ? format(WORDS.line, { pids: lock.waiters.join(", ") }) : WORDS.nobody;
    make(this.boxes, "text", { x: LOCK.x, y: LOCK.y + LOCK.height + 26, class: lock.waiters.length ? "" : "faint" }, line);
  }

  showRow(frame, sale) {
    const { batch, batches } = frame.rates;
    const commit = batch ? [[format(WORDS.batch_size, { size: batch })]] : [];
    this.box(COMMIT, WORDS.commit, commit);
    if (batches) make(this.boxes, "text", { x: COMMIT.x + 14, y: COMMIT.y + 70, class: "faint" }, format(WORDS.commits, { count: batches }));
    this.wire(533, 120, 533, 160);
    this.wire(533, 244, 533, 284);
    this.box(ROW, WORDS.row, sale ? [[format(WORDS.left, { available: number.format(sale.available), total: number.format(sale.total) })]] : []);
    const level = { x: ROW.x + 14, y: ROW.y + 62, height: 10, rx: 5 };
    make(this.boxes, "rect", { ...level, width: 174, class: "lease-ground" });
    if (sale) make(this.boxes, "rect", { ...level, width: 174 * Math.max(0, sale.available / (sale.total || 1)), class: "level" });
    this.box(OUTBOX, WORDS.outbox, [
      [format(WORDS.messages, { count: number.format(frame.owed.messages) })],
      [format(WORDS.mails, { count: number.format(frame.owed.mails) }), "faint"],
    ]);
  }

  // A dot for each commit of the last fifth of a second, as far as they can be told apart.
  move(perSecond) {
    this.commits += perSecond / 5;
    const dots = Math.min(MOST_DOTS, Math.floor(this.commits));
    this.commits -= Math.floor(this.commits);
    if (still.matches || !this.exits?.length) return;
    for (let dot = 0; dot < dots; dot += 1) {
      const y = this.exits[dot % this.exits.length];
      const circle = make(this.dots, "circle", { r: 6, class: "dot" });
      const at = (x, to) => ({ transform: `translate(${x}px, ${to}px)` });
      const moving = circle.animate([at(180, y), at(306, 110), at(533, 80), at(533, 200), at(533, 320)], {
        duration: 900, delay: (dot * 200) / dots, fill: "backwards",
      });
      moving.finished.then(() => circle.remove(), () => circle.remove());
    }
  }
}
