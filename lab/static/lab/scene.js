// The mechanism: web processes with their queues, the item's lock, the transaction, row and outbox.

import { format, number, texts } from "./stream.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_PROCESSES = 4;
const MOST_DOTS = 6;
const WORDS = texts.scene;
const still = matchMedia("(prefers-reduced-motion: reduce)");

// A token begins with the time at which its lock was first taken: its last digits tell tokens apart.
const short = (token) => (token ? `…${String(token).slice(-6)}` : "–");

function make(parent, kind, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

const LEFT = 8;
const WIDTH = 464;
const PROCESSES = { y: 26, height: 84, gap: 10 };
const LOCK = { x: LEFT, y: 142, width: WIDTH, height: 98 };
const LAST = { y: 284, height: 108 };
const COMMIT = { ...LAST, x: LEFT, width: 146 };
const ROW = { ...LAST, x: LEFT + 154, width: 166 };
const OUTBOX = { ...LAST, x: LEFT + 328, width: 136 };
const middle = (box) => box.x + box.width / 2;

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
    this.paused = frame.fault?.paused;
    this.showProcesses(frame.web.slice(0, MOST_PROCESSES), used ? lock : undefined, used);
    if (sale && used) this.showLock(lock);
    else if (sale) this.note(LOCK.y + 54, format(WORDS.unlocked, sale), "faint");
    this.showTransaction(frame, sale);
    this.showToken(frame, sale);
    this.move(frame.rates.batches || 0);
  }

  box({ x, y, width, height }, title, lines, kind = "") {
    make(this.boxes, "rect", { x, y, width, height, rx: 12, class: `box ${kind}` });
    make(this.boxes, "text", { x: x + 12, y: y + 24, class: "strong" }, title);
    lines.forEach(([text, style = ""], index) =>
      make(this.boxes, "text", { x: x + 12, y: y + 46 + 20 * index, class: style }, text));
  }

  bar({ x, y, width }, share, kind) {
    const bar = { x, y, height: 9, rx: 4 };
    make(this.boxes, "rect", { ...bar, width, class: "lease-ground" });
    make(this.boxes, "rect", { ...bar, width: width * Math.max(0, Math.min(1, share)), class: kind });
  }

  note(y, text, kind) {
    make(this.boxes, "text", { x: LEFT + WIDTH / 2, y, class: kind, "text-anchor": "middle" }, text);
  }

  // To the right of the wire between lock and transaction.
  beside(y, text, kind) {
    make(this.boxes, "text", { x: middle(COMMIT) + 14, y, class: kind }, text);
  }

  wire(x1, y1, x2, y2, kind = "") {
    make(this.wires, "path", { d: `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`, class: `wire ${kind}` });
  }

  showProcesses(web, lock, used) {
    make(this.boxes, "text", { x: LEFT, y: 16, class: "faint" }, WORDS.buyers);
    const count = Math.max(2, web.length);
    const width = (WIDTH - PROCESSES.gap * (count - 1)) / count;
    this.exits = [];
    web.forEach((process, index) => {
      const box = { ...PROCESSES, x: LEFT + index * (width + PROCESSES.gap), width };
      const place = lock?.waiters.indexOf(process.pid) ?? -1;
      const holds = lock?.holder === process.pid;
      const off = process.state === "stopped" || process.without_redis;
      const kind = off ? "off" : holds ? "holds" : place >= 0 ? "waits" : "";
      this.box(box, `${process.pid}${place >= 0 ? `  (${place + 1}.)` : ""}`, [], kind);
      const state = this.stateOf(process);
      if (state) make(this.boxes, "text", { x: box.x + 12, y: box.y + 48, class: "bad" }, state);
      // A circle for each buyer, as many as there is room for.
      const room = state ? 0 : Math.floor((width - 24) / 11);
      for (let buyer = 0; buyer < Math.min(process.waiting, room); buyer += 1)
        make(this.boxes, "circle", { cx: box.x + 16 + buyer * 11, cy: box.y + 44, r: 4.5, class: "queue" });
      make(this.boxes, "text", { x: box.x + 12, y: box.y + 72, class: "faint" }, format(WORDS.waiting, { count: number.format(process.waiting) }));
      const x = middle(box);
      if (used) this.wire(x, box.y + box.height, x, LOCK.y, holds ? "holds" : "");
      else this.wire(x, box.y + box.height, middle(COMMIT), COMMIT.y);
      if (holds || !used || !lock) this.exits.push(x);
    });
  }

  stateOf({ pid, state, without_redis: degraded }) {
    if (pid === this.paused?.pid && this.paused.token) return format(WORDS.paused_with, { token: short(this.paused.token) });
    return state === "stopped" ? WORDS.stopped : degraded ? WORDS.degraded : "";
  }

  showLock(lock) {
    const held = lock?.holder;
    this.wire(middle(COMMIT), LOCK.y + LOCK.height, middle(COMMIT), COMMIT.y, held ? "holds" : "");
    if (!lock) {
      this.box(LOCK, WORDS.lock, [[WORDS.unreachable, "bad"]], "off");
      return;
    }
    const now = held ? `${format(WORDS.holder, { pid: held })} · ${WORDS.token} ${short(lock.token)}` : WORDS.free;
    const line = lock.waiters.length ? format(WORDS.line, { pids: lock.waiters.join(", ") }) : WORDS.nobody;
    this.box(LOCK, WORDS.lock, [[now, held ? "" : "faint"], [line, lock.waiters.length ? "" : "faint"]], held ? "holds" : "");
    const ends = { x: LOCK.x + LOCK.width - 12, y: LOCK.y + 24, class: "faint", "text-anchor": "end" };
    if (held) make(this.boxes, "text", ends, format(WORDS.lease, { seconds: lock.remaining.toFixed(1) }));
    this.bar({ x: LOCK.x + 12, y: LOCK.y + 80, width: WIDTH - 24 }, held ? lock.remaining / lock.lease : 0, "lease");
  }

  showTransaction(frame, sale) {
    const { batch, batches } = frame.rates;
    this.box(COMMIT, WORDS.commit, [
      [batch ? format(WORDS.batch_size, { size: batch }) : ""],
      [batches ? format(WORDS.commits, { count: Math.round(batches) }) : "", "faint"],
    ]);
    this.wire(COMMIT.x + COMMIT.width, COMMIT.y + 50, ROW.x, ROW.y + 50);
    this.wire(ROW.x + ROW.width, ROW.y + 50, OUTBOX.x, OUTBOX.y + 50);
    const left = sale && format(WORDS.left, { available: number.format(sale.available), total: number.format(sale.total) });
    this.box(ROW, WORDS.row, sale ? [[left]] : []);
    this.bar({ x: ROW.x + 12, y: ROW.y + 58, width: ROW.width - 24 }, sale ? sale.available / (sale.total || 1) : 0, "level");
    this.box(OUTBOX, WORDS.outbox, [
      [format(WORDS.messages, { count: number.format(frame.pending.messages) })],
      [format(WORDS.mails, { count: number.format(frame.pending.mails) }), "faint"],
    ]);
  }

  // The token of a holder that was paused, against the last one that has written.
  showToken(frame, sale) {
    if (sale?.locked)
      make(this.boxes, "text", { x: ROW.x + 12, y: ROW.y + 92, class: "faint" }, format(WORDS.fence, { fence: short(sale.fence) }));
    const { values } = frame.fault_over ?? {};
    if (values?.paused && values.stale)
      this.beside(LOCK.y + LOCK.height + 28, format(WORDS.refused, { token: short(values.paused.token), fence: short(values.fence) }), "bad");
  }

  // A dot for each commit of the last fifth of a second, as far as they can be told apart.
  move(perSecond) {
    this.commits += perSecond / 5;
    const dots = Math.min(MOST_DOTS, Math.floor(this.commits));
    this.commits -= Math.floor(this.commits);
    if (still.matches || !this.exits?.length) return;
    for (let dot = 0; dot < dots; dot += 1) {
      const x = this.exits[dot % this.exits.length];
      const circle = make(this.dots, "circle", { r: 6, class: "dot" });
      const at = (across, down) => ({ transform: `translate(${across}px, ${down}px)` });
      const way = [at(x, 110), at(middle(COMMIT), 240), at(middle(COMMIT), 334), at(middle(ROW), 334), at(middle(OUTBOX), 334)];
      const moving = circle.animate(way, { duration: 900, delay: (dot * 200) / dots, fill: "backwards" });
      moving.finished.then(() => circle.remove(), () => circle.remove());
    }
  }
}
