"use strict";
// The picture: buyers on the left, the shop in the middle, answers on the right.

const RADIUS = 4; // of a request under way, in pixels

class ReplayPicture {
  constructor(canvas, replay) {
    this.canvas = canvas;
    this.replay = replay;
    this.words = replayWords();
    this.x = new Float32Array(replay.count).fill(NaN);
    this.y = new Float32Array(replay.count);
    this.rank = this.ranks();
    this.resize();
  }

  order(times) {
    return [...times.keys()].filter((call) => times[call] !== null).sort((a, b) => times[a] - times[b]);
  }

  // The place of each answer among those with its outcome.
  ranks() {
    const rank = new Int32Array(this.replay.count);
    this.answers = [0, 0, 0];
    for (const call of this.order(this.replay.answered)) rank[call] = this.answers[this.replay.outcome[call]]++;
    return rank;
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(this.canvas);
    this.colour = (name) => style.getPropertyValue(`--r-${name}`).trim();
    this.font = Math.min(20, Math.max(12, width / 75));
    this.arrange(width, height);
  }

  arrange(width, height) {
    const [top, gap] = [this.font * 2, 10];
    const inside = { y: top, height: height - top - 4 };
    this.size = { width, height };
    this.left = { x: 14, ...inside };
    const bins = { x: 0.75 * width, width: 0.25 * width - 4 };
    const shop = { x: 0.12 * width, width: 0.56 * width, ...inside };
    const share = this.answers[UNKNOWN] ? [0.36, 0.36, 0.28] : [0.5, 0.5, 0];
    let y = top;
    this.bins = share.map((part, outcome) => {
      const bin = { ...bins, y, height: inside.height * part - gap };
      y += inside.height * part;
      return { ...bin, cell: this.cell(bin, this.answers[outcome]) };
    });
    this.shop = { ...shop, height: shop.height - gap };
  }

  // The side of the squares of which so many fit into a bin below its label.
  cell(bin, count) {
    const height = bin.height - this.font * 2.2;
    for (let side = 24; side > 2; side -= 0.5)
      if (Math.floor((bin.width - 16) / side) * Math.floor(height / side) >= count) return side;
    return 2;
  }

  square(call) {
    const bin = this.bins[this.replay.outcome[call]];
    const across = Math.max(1, Math.floor((bin.width - 16) / bin.cell));
    const place = this.rank[call];
    return [bin.x + 8 + bin.cell * ((place % across) + 0.5),
            bin.y + this.font * 1.7 + bin.cell * (Math.floor(place / across) + 0.5), bin.cell];
  }

  // A place of its own for each request, spread evenly.
  spread(call, box) {
    return box.y + 14 + ((call * 0.618034) % 1) * (box.height - 28);
  }

  between(from, to, part) {
    return [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
  }

  place(call, at) {
    const { sent, answered } = this.replay;
    const start = [this.left.x, this.spread(call, this.left)];
    const end = answered[call] === null ? [this.bins[0].x - 20, start[1]] : this.square(call);
    // Without an answer a dot stops on its way.
    const until = answered[call] ?? this.replay.end * 1.5;
    return this.between(start, end, (at - sent[call]) / Math.max(1, until - sent[call]));
  }

  // `still`: dots are where they belong; otherwise they glide there. Returns the counts.
  draw(at, still) {
    const { context } = this;
    if (!context) return null;
    const counts = { sent: 0, answered: [0, 0, 0], units: 0, repeated: 0 };
    context.clearRect(0, 0, this.size.width, this.size.height);
    const dots = this.move(at, still, counts);
    this.text(this.words.sent, 4, this.font * 1.2, this.font, "text", this.shop.x - 12, 600);
    this.text(this.words.shop, this.shop.x, this.font * 1.2, this.font, "text", this.shop.width, 600);
    this.box(this.shop, "");
    this.drawAnswers(at);
    for (const call of dots) this.drawDot(call);
    return counts;
  }

  move(at, still, counts) {
    const { replay } = this;
    const dots = [];
    for (let call = 0; call < replay.count; call += 1) {
      const state = replay.state(call, at);
      if (state === "answered") {
        counts.answered[replay.outcome[call]] += 1;
        if (replay.takes.has(call)) counts.units += replay.quantity[call];
        else if (replay.repeats.has(call)) counts.repeated += 1;
      }
      if (state !== "sent") {
        this.x[call] = NaN;
        continue;
      }
      counts.sent += 1;
      const [x, y] = this.place(call, at);
      const part = still || Number.isNaN(this.x[call]) ? 1 : 0.3;
      this.x[call] = part === 1 ? x : this.x[call] + (x - this.x[call]) * part;
      this.y[call] += (y - this.y[call]) * part;
      dots.push(call);
    }
    return dots;
  }

  box({ x, y, width, height }, label) {
    const { context } = this;
    context.beginPath();
    context.roundRect(x, y, width, height, 10);
    context.fillStyle = this.colour("box");
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = this.colour("line");
    context.stroke();
    this.text(label, x + 10, y + this.font * 1.15, this.font * 0.85, "faint", width - 16);
  }

  text(text, x, y, size, colour, width, weight = 400) {
    this.context.font = `${weight} ${size}px system-ui, sans-serif`;
    this.context.fillStyle = this.colour(colour);
    this.context.fillText(text, x, y, width);
  }

  drawAnswers(at) {
    const { replay, context, words } = this;
    const labels = [words.answers, words.refused, words.unknown];
    this.bins.forEach((bin, outcome) => {
      if (bin.height > 20) this.box(bin, labels[outcome]);
    });
    const marked = [];
    for (let call = 0; call < replay.count; call += 1) {
      if (replay.answered[call] === null || at < replay.answered[call]) continue;
      const [x, y, cell] = this.square(call);
      if (replay.marked.has(call)) marked.push([x, y, Math.max(12, cell * 0.9)]);
      const broken = replay.marked.has(call) || replay.beyond.has(call);
      const colour = this.colour(broken ? "broken" : ["accepted", "refused", "unknown"][replay.outcome[call]]);
      const side = Math.max(1.5, cell - (cell > 5 ? 1.5 : 0.5));
      if (replay.repeats.has(call)) this.frame(x, y, side, colour);
      else {
        context.fillStyle = colour;
        context.fillRect(x - side / 2, y - side / 2, side, side);
      }
    }
    for (const place of marked) this.ring(...place);
  }

  // Hollow, for an answer that promises nothing new.
  frame(x, y, side, colour) {
    const { context } = this;
    context.lineWidth = 1;
    context.strokeStyle = colour;
    context.strokeRect(x - side / 2 + 0.5, y - side / 2 + 0.5, side - 1, side - 1);
  }

  drawDot(call) {
    const { context } = this;
    const broken = this.replay.marked.has(call);
    context.fillStyle = this.colour(broken ? "broken" : "dot");
    context.beginPath();
    context.arc(this.x[call], this.y[call], broken ? RADIUS + 2 : RADIUS, 0, 2 * Math.PI);
    context.fill();
    if (broken) this.ring(this.x[call], this.y[call]);
  }

  ring(x, y, radius = 12) {
    const { context } = this;
    context.strokeStyle = this.colour("broken");
    context.lineWidth = 3;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
  }
}
