"use strict";
// The player: opens a replay and moves through its time.
//
//   const player = new ReplayPlayer(element);
//   player.open(text);        // throws ReplayError; stands at the first violation, if there is one
//   player.showMark("P1");    // goes to the first violation of a property

const SPEEDS = [1000, 300, 100, 30, 10, 3, 1]; // times slower than it was
const SLOW = 100;
const IDLE = 400; // ms that nothing may happen on the screen before the player goes on to the next event
const SHOWN = 12; // events in the list

function make(parent, kind, attributes = {}, text = "") {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
  return element;
}

class ReplayPlayer {
  constructor(root) {
    this.root = root;
    this.words = replayWords();
    this.number = new Intl.NumberFormat(document.documentElement.lang || "en");
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.at = 0;
    this.speed = SLOW;
    this.playing = false;
    root.classList.add("replay");
    root.hidden = true;
    this.build();
    root.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
  }

  build() {
    const { root, words } = this;
    this.note = make(root, "p", { class: "replay-note" });
    this.figures = make(root, "div", { class: "replay-figures" });
    this.figure = Object.fromEntries(["way", "queued", "selling", "accepted", "refused", "unknown"].map((name) => {
      const box = make(this.figures, "div", { "data-figure": name });
      const value = make(box, "b");
      make(box, "span", {}, words[name]);
      return [name, { box, value, more: make(box, "small") }];
    }));
    this.broken = make(root, "p", { class: "replay-broken" });
    const body = make(root, "div", { class: "replay-body" });
    const stage = make(body, "div", { class: "replay-stage" });
    this.canvas = make(stage, "canvas", { class: "replay-picture", role: "img", "aria-label": words.picture });
    const time = make(stage, "div", { class: "replay-time" });
    this.strip = make(time, "canvas", { "aria-hidden": "true" });
    this.slider = make(time, "input", { type: "range", min: 0, value: 0, "aria-label": words.moment });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.controls = make(stage, "div", { class: "replay-controls" });
    this.buttons = {
      back: this.button("back", "←", () => this.step(-1)),
      play: this.button("play", "▶", () => this.play(!this.playing)),
      next: this.button("next", "→", () => this.step(1)),
      first: this.button("first", "", () => this.showMark()),
    };
    this.buildSpeed();
    this.clock = make(this.controls, "output", { class: "replay-clock" });
    make(stage, "p", { class: "replay-note" }, words.keys);
    const beside = make(body, "section", { class: "replay-beside" });
    make(beside, "h2", {}, words.events);
    this.list = make(beside, "ol", { class: "replay-events" });
    this.said = make(root, "p", { class: "replay-said", role: "status" });
  }

  buildSpeed() {
    const label = make(this.controls, "label", {}, `${this.words.speed} `);
    this.select = make(label, "select");
    for (const slower of SPEEDS)
      this.select.add(new Option(slower === 1 ? this.words.real : `1/${slower}`, slower, slower === SLOW, slower === SLOW));
    this.select.addEventListener("change", () => { this.speed = Number(this.select.value); });
  }

  button(name, sign, act) {
    const button = make(this.controls, "button", { type: "button", class: "replay-button", "data-replay": name });
    if (sign) make(button, "span", { "aria-hidden": "true" }, sign);
    make(button, "span", { class: sign ? "replay-word" : "" }, this.words[name]);
    button.addEventListener("click", act);
    return button;
  }

  open(text) {
    const replay = new Replay(text);
    this.play(false);
    this.replay = replay;
    this.root.hidden = false;
    this.slider.max = replay.end;
    this.slider.step = Math.max(1, Math.round(replay.end / 1000));
    this.note.textContent = this.aboutFile(replay);
    this.buttons.first.hidden = !replay.marks.length;
    for (const name of ["queued", "selling"]) this.figure[name].box.hidden = !replay.served;
    this.figure.queued.box.hidden ||= !replay.batches;
    this.picture = new ReplayPicture(this.canvas, replay);
    this.resize();
    if (replay.marks.length) this.showMark();
    else this.go(0);
  }

  aboutFile(replay) {
    const { words, number } = this;
    const counts = [replay.count, replay.all].map((count) => number.format(count));
    const part = replay.count === replay.all ? words.all : replay.marks.length ? words.part : words.start;
    return [fillIn(part, ...counts), replay.marks.length ? "" : words.none, replay.processes.length ? "" : words.foreign].join(" ");
  }

  resize() {
    if (!this.replay || !this.root.clientWidth) return;
    this.picture.resize();
    this.drawStrip();
    this.show(true);
  }

  // --- Moving --------------------------------------------------------------------------------

  go(at, still = true) {
    this.at = Math.min(Math.max(at, 0), this.replay.end);
    this.show(still);
  }

  showMark(property) {
    const mark = this.replay.marks.find((each) => !property || each.property === property);
    if (mark) this.stopAt(mark);
  }

  stopAt(mark) {
    this.play(false);
    this.shown = mark; // several may be at one moment
    this.go(mark.at);
    this.say(fillIn(this.words.broken, mark.property, mark.name, mark.text));
  }

  step(direction) {
    this.play(false);
    const { events } = this.replay;
    const later = this.countEvents(this.at);
    const event = direction > 0 ? events[later] : events[this.countEvents(this.at - 1) - 1];
    if (!event) return;
    this.go(event.at);
    this.say(`${this.milliseconds(event.at)} · ${this.replay.tell(event, this.words)}`);
  }

  // How many events have happened by a moment.
  countEvents(at) {
    let [low, high] = [0, this.replay.events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.replay.events[middle].at <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  play(on) {
    if (on && this.at >= this.replay.end) this.go(0);
    this.playing = on;
    const { play } = this.buttons;
    play.firstElementChild.textContent = on ? "‖" : "▶";
    play.lastElementChild.textContent = on ? this.words.pause : this.words.play;
    if (!on) return;
    this.before = performance.now();
    requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    if (!this.playing) return;
    const passed = Math.min(100, now - this.before);
    this.before = now;
    let at = this.at + (passed * 1000) / this.speed;
    const next = this.replay.events[this.countEvents(this.at)];
    const idle = this.counts.sent + this.counts.queued + this.counts.selling + this.counts.committed === 0;
    if (next && idle && ((next.at - at) * this.speed) / 1000 > IDLE) at = next.at;
    // A violation stops the player, so that nobody misses it.
    const mark = this.replay.marks.find((each) => each.at > this.at && each.at <= at);
    if (mark) {
      this.stopAt(mark);
      return;
    }
    this.go(at, this.still.matches);
    if (this.at >= this.replay.end) this.play(false);
    else requestAnimationFrame((later) => this.tick(later));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.replay) return;
    const within = event.target.tagName;
    const arrows = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.go(0), End: () => this.go(this.replay.end) };
    const letters = { v: () => this.showMark(), "+": () => this.faster(1), "-": () => this.faster(-1), "−": () => this.faster(-1) };
    let act = letters[event.key];
    if (within !== "INPUT" && within !== "SELECT") act ??= arrows[event.key];
    if (event.key === " " && within !== "BUTTON" && within !== "SELECT") act = () => this.play(!this.playing);
    if (!act || (within === "SELECT" && event.key === "v")) return;
    event.preventDefault();
    act();
  }

  faster(direction) {
    const place = Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(this.speed) + direction));
    this.speed = SPEEDS[place];
    this.select.value = this.speed;
  }

  // --- Showing -------------------------------------------------------------------------------

  milliseconds(at) {
    return fillIn(this.words.now, (at / 1000).toFixed(at < 10_000_000 ? 2 : 0));
  }

  show(still) {
    const { replay } = this;
    const counts = this.picture.draw(this.at, still);
    if (!counts) return;
    this.counts = counts;
    const [accepted, refused, unknown] = counts.answered;
    const way = counts.sent + counts.queued + counts.selling + counts.committed;
    const values = { way, queued: counts.queued, selling: counts.selling, accepted, refused, unknown };
    for (const [name, value] of Object.entries(values)) this.figure[name].value.textContent = this.number.format(value);
    const beyond = replay.units !== null && counts.units > replay.units;
    this.figure.accepted.more.textContent = replay.units === null ? "" : fillIn(this.words.units, this.number.format(counts.units), this.number.format(replay.units));
    this.figure.accepted.box.toggleAttribute("data-bad", beyond);
    this.slider.value = this.at;
    this.clock.textContent = this.milliseconds(this.at);
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
    this.showBroken();
    this.showEvents();
  }

  showBroken() {
    const last = this.replay.marks.findLast((each) => each.at <= this.at);
    const mark = last && last.at === this.shown?.at ? this.shown : last;
    this.broken.hidden = !this.replay.marks.length;
    this.broken.dataset.now = Boolean(mark); // its place is kept, so that the picture stays where it is
    this.broken.textContent = mark ? fillIn(this.words.broken, mark.property, mark.name, mark.text) : "–";
  }

  showEvents() {
    const until = this.countEvents(this.at);
    if (this.listed === until && this.list.childElementCount) return;
    this.listed = until;
    const shown = this.replay.events.slice(Math.max(0, until - SHOWN), until).reverse();
    this.list.replaceChildren();
    for (const event of shown) {
      const line = make(this.list, "li", event.kind === "mark" ? { "data-bad": "" } : {});
      make(line, "time", {}, this.milliseconds(event.at));
      make(line, "span", {}, this.replay.tell(event, this.words));
    }
  }

  say(text) {
    this.said.textContent = text;
  }

  // Answers over the whole time, faults as bands, violations as marks.
  drawStrip() {
    const { replay, strip, picture } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [strip.clientWidth, strip.clientHeight];
    strip.width = width * scale;
    strip.height = height * scale;
    const context = strip.getContext("2d");
    context.scale(scale, scale);
    const bins = Array.from({ length: Math.max(1, Math.floor(width / 4)) }, () => [0, 0, 0]);
    const x = (at) => (at / replay.end) * width;
    for (let call = 0; call < replay.count; call += 1) {
      if (replay.answered[call] !== null)
        bins[Math.min(bins.length - 1, Math.floor((replay.answered[call] / replay.end) * bins.length))][replay.outcome[call]] += 1;
    }
    context.fillStyle = picture.colour("fault");
    for (const { start, end } of replay.faults) context.fillRect(x(start), 0, Math.max(2, x(end) - x(start)), height);
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
