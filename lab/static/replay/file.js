"use strict";
// A replay as the player needs it, read from JSON. lab/room/replay.py describes the document.

const REPLAY_VERSION = 1;
const [ACCEPTED, REFUSED, UNKNOWN] = [0, 1, 2];

class ReplayError extends Error {}

class Replay {
  constructor(text) {
    const words = replayWords();
    const told = Replay.parse(text, words);
    this.check(told, words);
    Object.assign(this, told.calls);
    this.words = told.words;
    this.title = String(told.title ?? "");
    this.all = told.all;
    this.units = told.units;
    this.faults = told.faults ?? [];
    this.marks = told.marks ?? [];
    this.count = this.sent.length;
    this.marked = new Set(this.marks.map(({ call }) => call).filter((call) => call !== null));
    const last = (values) => values.reduce((most, value) => Math.max(most, value ?? 0), 0);
    this.end = Math.max(last(this.sent), last(this.answered), 1);
    this.events = this.listEvents();
    this.takes = this.takers();
  }

  static parse(text, words) {
    let told;
    try {
      told = JSON.parse(text);
    } catch {
      throw new ReplayError(words.not_json);
    }
    if (told?.replay !== REPLAY_VERSION) throw new ReplayError(fillIn(words.not_replay, REPLAY_VERSION));
    return told;
  }

  check({ calls, words: list, marks }, words) {
    const damaged = (what) => new ReplayError(fillIn(words.damaged, what));
    const columns = (group, names, length) => {
      for (const name of names) {
        const column = group?.[name];
        if (!Array.isArray(column) || column.length !== length) throw damaged(name);
        if (column.some((value) => value !== null && !Number.isInteger(value))) throw damaged(name);
      }
    };
    const length = calls?.sent?.length;
    if (!Number.isInteger(length)) throw damaged("sent");
    if (!length) throw new ReplayError(words.empty);
    columns(calls, ["sent", "answered", "outcome", "op", "buyer", "code", "order", "quantity", "status"], length);
    if (!Array.isArray(list)) throw damaged("words");
    if (marks?.some(({ at, call }) => !Number.isInteger(at) || !(call === null || calls.sent[call] >= 0))) throw damaged("marks");
  }

  word(name, call) {
    return this.words[this[name][call]] ?? "";
  }

  // The calls that promised units, the first good answer about each order; `repeats` are the others:
  // a buyer who asks again under the same key is told the same order again. `beyond` are those of the
  // first that promised more than there was.
  takers() {
    const orders = new Set();
    this.repeats = new Set();
    this.beyond = new Set();
    let taken = 0;
    const takes = new Set();
    for (const { kind, call } of this.events) {
      if (kind !== "answered" || this.word("op", call) !== "order" || this.outcome[call] !== ACCEPTED) continue;
      const order = this.order[call];
      if (orders.has(order)) {
        this.repeats.add(call);
        continue;
      }
      takes.add(call);
      orders.add(order);
      taken += this.quantity[call];
      if (this.units !== null && taken > this.units) this.beyond.add(call);
    }
    return takes;
  }

  // Where a request is at a moment: not yet sent, under way, or answered.
  state(call, at) {
    if (at < this.sent[call]) return "before";
    const answered = this.answered[call];
    return answered !== null && at >= answered ? "answered" : "sent";
  }

  // Every change, in order.
  listEvents() {
    const events = [];
    for (let call = 0; call < this.count; call += 1) {
      events.push({ at: this.sent[call], kind: "sent", call });
      if (this.answered[call] !== null) events.push({ at: this.answered[call], kind: "answered", call });
    }
    this.marks.forEach((mark) => events.push({ at: mark.at, kind: "mark", mark }));
    const order = ["sent", "answered", "mark"];
    return events.sort((a, b) => a.at - b.at || order.indexOf(a.kind) - order.indexOf(b.kind));
  }

  tell({ kind, call, mark }, words) {
    if (kind === "mark") return fillIn(words.e_mark, mark.property);
    const buyer = this.word("buyer", call);
    if (kind === "sent") return fillIn(words.e_sent, buyer, this.word("op", call));
    const outcome = [words.accepted, words.refused, words.unknown][this.outcome[call]];
    const answer = `${this.status[call] || "–"} ${this.word("code", call)}`.trim();
    return fillIn(words.e_answered, buyer, answer, outcome.toLowerCase());
  }
}
