"use strict";
// The player: opens two recordings, and moves through their time on one clock.
//
//   const player = new ReplayPlayer(element, [left, right]);  // elements for the views
//   player.open(one, other);  // throws ReplayError
//   player.showMark("P1");    // goes to the first violation of a property

const SHOW = 0; // not a speed: the whole run in half a minute, slowly around the first violation
const SPEEDS = [1000, 300, 100, 30, 10, 3, 1, 0.25, SHOW]; // times slower than it was
const LENGTH = 26_000_000; // microseconds that a show takes, without the slow part
const AROUND = 0.004; // of the run, before and after the violation
const SLOWLY = 20; // times slower there: four seconds
const IDLE = 400; // ms that nothing may happen on the screen before the player goes on to the next event

class ReplayPlayer {
  constructor(root, places) {
    this.root = root;
    this.words = replayWords();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.at = 0;
    this.speed = SHOW;
    this.playing = false;
    root.classList.add("replay");
    root.hidden = true;
    this.build(places);
    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
  }

  build(places) {
    const { root, words } = this;
    const body = make(root, "div", { class: "replay-body" });
    const stage = make(body, "div", { class: "replay-stage" });
    this.views = places.map((place) => new ReplayView(place));
    this.slider = make(stage, "input", { class: "replay-time", type: "range", min: 0, value: 0, "aria-label": words.moment });
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
    this.said = make(root, "p", { class: "replay-said", role: "status" });
  }

  buildSpeed() {
    const label = make(this.controls, "label", {}, `${this.words.speed} `);
    this.select = make(label, "select");
    for (const slower of SPEEDS) {
      const named = { [SHOW]: this.words.show, 1: this.words.real };
      const text = named[slower] ?? (slower > 1 ? `1/${slower}` : `${1 / slower}×`);
      this.select.add(new Option(text, slower, slower === SHOW, slower === SHOW));
    }
    this.select.addEventListener("change", () => { this.speed = Number(this.select.value); });
  }

  button(name, sign, act) {
    const button = make(this.controls, "button", { type: "button", class: "replay-button", "data-replay": name });
    if (sign) make(button, "span", { "aria-hidden": "true" }, sign);
    make(button, "span", { class: sign ? "replay-word" : "" }, this.words[name]);
    button.addEventListener("click", act);
    return button;
  }

  open(...texts) {
    this.play(false);
    this.views.forEach((view, number) => view.open(texts[number]));
    const replays = this.views.map(({ replay }) => replay);
    [this.replay] = replays;
    this.end = Math.max(...replays.map(({ end }) => end));
    this.marks = replays.flatMap(({ marks }, number) => marks.map((mark) => ({ ...mark, view: this.views[number] })));
    this.marks.sort((a, b) => a.at - b.at);
    this.events = replays.flatMap((replay) => replay.events.map((event) => ({ ...event, replay })));
    this.events.sort((a, b) => a.at - b.at); // stable: in the order of each replay
    this.root.hidden = false;
    this.slider.max = this.end;
    this.slider.step = Math.max(1, Math.round(this.end / 1000));
    this.buttons.first.hidden = !this.marks.length;
    this.resize();
    this.go(0);
  }

  resize() {
    if (!this.replay || !this.root.clientWidth) return;
    for (const view of this.views) view.resize(this.end);
    this.show(true);
  }

  // --- Moving --------------------------------------------------------------------------------

  go(at, still = true) {
    this.at = Math.min(Math.max(at, 0), this.end);
    this.show(still);
  }

  showMark(property) {
    const mark = this.marks.find((each) => !property || each.property === property);
    if (mark) this.stopAt(mark);
  }

  stopAt(mark) {
    this.play(false);
    this.tell(mark);
    this.go(mark.at);
  }

  tell(mark) {
    mark.view.shown = mark; // several may be at one moment
    this.say(fillIn(this.words.broken, mark.property, mark.name, mark.text));
  }

  step(direction) {
    this.play(false);
    const { events } = this;
    const later = this.countEvents(this.at);
    const event = direction > 0 ? events[later] : events[this.countEvents(this.at - 1) - 1];
    if (!event) return;
    this.go(event.at);
    this.say(`${this.milliseconds(event.at)} · ${event.replay.tell(event, this.words)}`);
  }

  // How many events have happened by a moment.
  countEvents(at) {
    let [low, high] = [0, this.events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle].at <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  play(on) {
    if (on && this.at >= this.end) this.go(0);
    this.playing = on;
    const { play } = this.buttons;
    play.firstElementChild.textContent = on ? "‖" : "▶";
    play.lastElementChild.textContent = on ? this.words.pause : this.words.play;
    if (!on) return;
    this.before = performance.now();
    requestAnimationFrame((now) => this.tick(now));
  }

  // How many times slower than it was, at this moment of the run.
  slower() {
    if (this.speed !== SHOW) return this.speed;
    const [first] = this.marks;
    const near = first && Math.abs(this.at - first.at) < AROUND * this.end;
    return (LENGTH / this.end) * (near ? SLOWLY : 1);
  }

  tick(now) {
    if (!this.playing) return;
    const passed = Math.min(100, now - this.before);
    this.before = now;
    const slower = this.slower();
    let at = this.at + (passed * 1000) / slower;
    const next = this.events[this.countEvents(this.at)];
    const idle = this.views.every(({ way }) => !way);
    if (next && idle && ((next.at - at) * slower) / 1000 > IDLE) at = next.at;
    // No frame jumps over the slow part.
    const [first] = this.marks;
    const begin = first && first.at - AROUND * this.end + 1;
    if (this.speed === SHOW && first && this.at < begin && at > begin) at = begin;
    const mark = this.marks.find((each) => each.at > this.at && each.at <= at);
    // A violation stops the player, so that nobody misses it; a show only goes on slowly.
    if (mark && this.speed !== SHOW) {
      this.stopAt(mark);
      return;
    }
    if (mark) this.tell(mark);
    this.go(at, this.still.matches);
    if (this.at >= this.end) this.play(false);
    else requestAnimationFrame((later) => this.tick(later));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.replay) return;
    const field = event.target.closest("input, select, textarea");
    if (field && !this.root.contains(field)) return; // somebody fills in a form
    const within = event.target.tagName;
    const arrows = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.go(0), End: () => this.go(this.end) };
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
    for (const view of this.views) view.show(this.at, still);
    this.slider.value = this.at;
    this.clock.textContent = this.milliseconds(this.at);
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
  }

  say(text) {
    this.said.textContent = text;
  }
}
