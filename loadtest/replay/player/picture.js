"use strict";
// The picture: buyers on the left, the shop's processes in the middle, answers on the right.

class ReplayPicture {
  constructor(canvas, replay) {
    this.canvas = canvas;
    this.replay = replay;
    this.words = replayWords();
    this.x = new Float32Array(replay.count).fill(NaN);
    this.y = new Float32Array(replay.count);
    this.processes = replay.processes;
    this.lane = replay.served?.process.map((pid) => this.processes.indexOf(pid));
    this.inQueue = replay.served ? this.order(replay.served.queued) : [];
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
    const lane = inside.height / Math.max(1, this.processes.length);
    const boxes = (x, part) => this.processes.map((_, number) =>
      ({ x, width: part, y: top + number * lane, height: lane - gap }));
    const queues = this.replay.batches;
    this.queues = queues ? boxes(shop.x, 0.31 * width) : [];
    this.selling = boxes(queues ? 0.49 * width : shop.x, queues ? 0.19 * width : shop.width);
    this.shop = { ...shop, height: shop.height - gap };
    this.pitch = { queued: this.fit(this.queues, "queued"), selling: this.fit(this.selling, "selling") };
  }

  // The side of the squares of which so many fit into a bin below its label.
  cell(bin, count) {
    const height = bin.height - this.font * 2.2;
    for (let side = 24; side > 2; side -= 0.5)
      if (Math.floor((bin.width - 16) / side) * Math.floor(height / side) >= count) return side;
    return 2;
  }

  // The distance of dots at which the fullest moment of the fullest process fits.
  fit(boxes, state) {
    if (!boxes.length) return 12;
    const { queued, begun, committed } = this.replay.served;
    const changes = this.processes.map(() => []);
    for (const call of this.inQueue) {
      const [from, to] = state === "queued" ? [queued[call], begun[call] ?? committed[call]] : [begun[call], committed[call]];
      if (from !== null) changes[this.lane[call]].push([from, 1], [to, -1]);
    }
    let most = 1;
    for (const each of changes) {
      let now = 0;
      for (const [, change] of each.sort((a, b) => a[0] - b[0] || a[1] - b[1])) most = Math.max(most, now += change);
    }
    const [{ width, height }] = boxes;
    return Math.max(2.5, Math.min(16, Math.sqrt(((width - 24) * (height - this.font * 2)) / most) * 0.94));
  }

  slot(box, pitch, place) {
    const rows = Math.max(1, Math.floor((box.height - this.font * 1.8) / pitch));
    return [box.x + box.width - 12 - pitch * (Math.floor(place / rows) + 0.5),
            box.y + this.font * 1.6 + pitch * ((place % rows) + 0.5)];
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

  place(call, state, at, places) {
    const { sent, answered, served } = this.replay;
    const start = [this.left.x, this.spread(call, this.left)];
    const end = answered[call] === null ? [this.bins[0].x - 20, start[1]] : this.square(call);
    // Without an answer a dot stops on its way.
    const until = answered[call] ?? this.replay.end * 1.5;
    if (served?.queued[call] == null) {
      // What the shop has not recorded waits before it.
      const part = (at - sent[call]) / Math.max(1, until - sent[call]);
      return this.between(start, served ? [this.shop.x - 12, start[1]] : end, part);
    }
    const number = this.lane[call];
    const first = this.queues[number] ?? this.selling[number];
    if (state === "sent")
      return this.between(start, [first.x, this.spread(call, first)], (at - sent[call]) / Math.max(1, served.queued[call] - sent[call]));
    if (state === "queued" && this.queues.length) return this.slot(this.queues[number], this.pitch.queued, places.queued[number]++);
    if (state !== "committed") return this.slot(this.selling[number], this.pitch.selling, places.selling[number]++);
    const box = this.selling[number];
    const from = [box.x + box.width, this.spread(call, box)];
    return this.between(from, end, (at - served.committed[call]) / Math.max(1, until - served.committed[call]));
  }

  // `still`: dots are where they belong; otherwise they glide there. Returns the counts.
  draw(at, still) {
    const { replay, context } = this;
    if (!context) return null;
    const counts = { sent: 0, queued: 0, selling: 0, committed: 0, answered: [0, 0, 0], units: 0, own: this.processes.map(() => [0, 0]) };
    context.clearRect(0, 0, this.size.width, this.size.height);
    const dots = this.move(at, still, counts);
    this.drawBoxes(counts);
    this.drawAnswers(at);
    const radius = Math.max(2, Math.min(6, this.pitch.queued * 0.38, this.pitch.selling * 0.38));
    for (const [call, state] of dots) this.drawDot(call, state, radius);
    return counts;
  }

  move(at, still, counts) {
    const { replay } = this;
    const places = { queued: this.processes.map(() => 0), selling: this.processes.map(() => 0) };
    const dots = [];
    const step = (call) => {
      const state = replay.state(call, at);
      if (state === "before") this.x[call] = NaN;
      if (state === "answered") {
        counts.answered[replay.outcome[call]] += 1;
        if (replay.takes.has(call)) counts.units += replay.quantity[call];
        this.x[call] = NaN;
      }
      if (state === "before" || state === "answered") return;
      counts[state] += 1;
      const [x, y] = this.place(call, state, at, places);
      const part = still || Number.isNaN(this.x[call]) ? 1 : 0.3;
      this.x[call] = part === 1 ? x : this.x[call] + (x - this.x[call]) * part;
      this.y[call] += (y - this.y[call]) * part;
      dots.push([call, state]);
    };
    for (const call of this.inQueue) step(call); // in the order of the queue
    for (let call = 0; call < replay.count; call += 1) if (replay.served?.queued[call] == null) step(call);
    this.processes.forEach((_, number) => { counts.own[number] = [places.queued[number], places.selling[number]]; });
    return dots;
  }

  box({ x, y, width, height }, label, lit) {
    const { context } = this;
    context.beginPath();
    context.roundRect(x, y, width, height, 10);
    context.fillStyle = this.colour("box");
    context.fill();
    context.lineWidth = lit ? 3 : 1.5;
    context.strokeStyle = this.colour(lit ? "accepted" : "line");
    context.stroke();
    this.text(label, x + 10, y + this.font * 1.15, this.font * 0.85, "faint", width - 16);
  }

  text(text, x, y, size, colour, width, weight = 400) {
    this.context.font = `${weight} ${size}px system-ui, sans-serif`;
    this.context.fillStyle = this.colour(colour);
    this.context.fillText(text, x, y, width);
  }

  drawBoxes(counts) {
    const { words } = this;
    const heading = (text, x, width) => this.text(text, x, this.font * 1.2, this.font, "text", width, 600);
    const name = (number) => fillIn(words.process, this.processes[number]);
    heading(words.sent, 4, this.shop.x - 12);
    if (!this.processes.length) {
      heading(words.shop, this.shop.x, this.shop.width);
      this.box(this.shop, "", false);
      return;
    }
    if (this.queues.length) heading(words.queue, this.queues[0].x, this.queues[0].width);
    heading(this.queues.length ? words.batch : words.own, this.selling[0].x, this.selling[0].width);
    this.queues.forEach((box, number) => this.box(box, `${name(number)} · ${counts.own[number][0]}`, false));
    this.selling.forEach((box, number) => this.box(box, `${this.queues.length ? "" : `${name(number)} · `}${counts.own[number][1]}`, counts.own[number][1] > 0));
  }

  drawAnswers(at) {
    const { replay, context, words } = this;
    const labels = [words.accepted, words.refused, words.unknown];
    this.bins.forEach((bin, outcome) => {
      if (bin.height > 20) this.box(bin, labels[outcome], false);
    });
    const marked = [];
    for (let call = 0; call < replay.count; call += 1) {
      if (replay.answered[call] === null || at < replay.answered[call]) continue;
      const [x, y, cell] = this.square(call);
      if (replay.marked.has(call)) marked.push([x, y, Math.max(12, cell * 0.9)]);
      context.fillStyle = this.colour(replay.marked.has(call) ? "broken" : ["accepted", "refused", "unknown"][replay.outcome[call]]);
      const side = Math.max(1.5, cell - (cell > 5 ? 1.5 : 0.5));
      context.fillRect(x - side / 2, y - side / 2, side, side);
    }
    for (const place of marked) this.ring(...place);
  }

  drawDot(call, state, radius) {
    const { context } = this;
    const broken = this.replay.marked.has(call);
    context.fillStyle = this.colour(broken ? "broken" : state === "committed" ? ["accepted", "refused", "unknown"][this.replay.outcome[call]] : "dot");
    context.beginPath();
    context.arc(this.x[call], this.y[call], broken ? radius + 2 : radius, 0, 2 * Math.PI);
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
