"use strict";
// One replay at a moment: its figures, what is broken, the picture, and its answers over the time.

function make(parent, kind, attributes = {}, text = "") {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
  return element;
}

class ReplayView {
  constructor(root) {
    this.words = replayWords();
    this.number = new Intl.NumberFormat(document.documentElement.lang || "en");
    root.classList.add("replay-view");
    this.note = make(root, "p", { class: "replay-note" });
    const figures = make(root, "div", { class: "replay-figures" });
    const names = ["way", "sold", "repeated", "refused", "unknown", "oversold"];
    this.figure = Object.fromEntries(names.map((name) => {
      const box = make(figures, "div", { "data-figure": name });
      const value = make(box, "b");
      make(box, "span", {}, this.words[name]);
      return [name, { box, value }];
    }));
    this.broken = make(root, "p", { class: "replay-broken" });
    this.canvas = make(root, "canvas", { class: "replay-picture", role: "img", "aria-label": this.words.picture });
    this.strip = make(root, "canvas", { class: "replay-strip", "aria-hidden": "true" });
  }

  open(text) {
    const replay = new Replay(text);
    this.replay = replay;
    this.shown = null;
    this.note.textContent = this.aboutFile(replay);
    this.figure.oversold.box.hidden = replay.units === null;
    this.broken.hidden = !replay.marks.length;
    this.picture = new ReplayPicture(this.canvas, replay);
  }

  aboutFile(replay) {
    const { words, number } = this;
    const counts = [replay.count, replay.all].map((count) => number.format(count));
    const part = replay.count === replay.all ? words.all : replay.marks.length ? words.part : words.start;
    return [fillIn(part, ...counts), replay.marks.length ? "" : words.none].join(" ");
  }

  // `end`: of the time that the strip shows.
  resize(end) {
    this.picture.resize();
    this.drawStrip(end);
  }

  show(at, still) {
    const { replay } = this;
    const counts = this.picture.draw(at, still);
    if (!counts) return;
    const [, refused, unknown] = counts.answered;
    this.way = counts.sent;
    const oversold = Math.max(0, counts.units - replay.units);
    const values = { way: this.way, sold: counts.units, repeated: counts.repeated, refused, unknown, oversold };
    for (const [name, value] of Object.entries(values)) this.figure[name].value.textContent = this.number.format(value);
    this.figure.oversold.box.toggleAttribute("data-bad", oversold > 0);
    this.showBroken(at);
  }

  showBroken(at) {
    const last = this.replay.marks.findLast((each) => each.at <= at);
    const mark = last && last.at === this.shown?.at ? this.shown : last;
    this.broken.dataset.now = Boolean(mark); // its place is kept, so that the picture stays where it is
    this.broken.textContent = mark ? fillIn(this.words.broken, mark.property, mark.name, mark.text) : "–";
  }

  // Answers over the whole time, faults as bands, violations as marks.
  drawStrip(end) {
    const { replay, strip, picture } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [strip.clientWidth, strip.clientHeight];
    strip.width = width * scale;
    strip.height = height * scale;
    const context = strip.getContext("2d");
    context.scale(scale, scale);
    const bins = Array.from({ length: Math.max(1, Math.floor(width / 4)) }, () => [0, 0, 0]);
    const x = (at) => (at / end) * width;
    for (let call = 0; call < replay.count; call += 1) {
      if (replay.answered[call] !== null)
        bins[Math.min(bins.length - 1, Math.floor((replay.answered[call] / end) * bins.length))][replay.outcome[call]] += 1;
    }
    context.fillStyle = picture.colour("fault");
    for (const { start, end: last } of replay.faults) context.fillRect(x(start), 0, Math.max(2, x(last) - x(start)), height);
    const most = Math.max(1, ...bins.map(([a, b, c]) => a + b + c));
    bins.forEach((bin, number) => {
      let y = height;
      bin.forEach((count, outcome) => {
        const part = (count / most) * (height - 12);
        context.fillStyle = picture.colour(["accepted", "refused", "unknown"][outcome]);
        context.fillRect((number * width) / bins.length, (y -= part), Math.max(1, width / bins.length - 1), part);
      });
    });
    context.fillStyle = picture.colour("broken");
    for (const { at } of replay.marks) {
      const place = Math.min(width - 2, x(at));
      context.fillRect(place - 1, 0, 3, height);
      context.beginPath();
      context.moveTo(place - 7, 0);
      context.lineTo(place + 8, 0);
      context.lineTo(place + 0.5, 11);
      context.fill();
    }
  }
}
