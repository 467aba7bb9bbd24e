// Countdowns by the server's clock, live stock and status, and forms that are sent once. The pages
// work without this script.

const messages = JSON.parse(document.getElementById("messages").textContent);
const format = (name, values) =>
  messages[name].replace(/%\((\w+)\)s/g, (_, value) => values[value]);

// --- The server's clock ------------------------------------------------------------------------
// The page contains the server's time at which it was made. The browser's clock may be wrong or may
// be changed, so only its monotonic timer is used.

const page = document.querySelector("main");
const arrived = performance.getEntriesByType("navigation")[0]?.responseStart || performance.now();
let difference = Date.parse(page.dataset.now) - arrived; // NaN on pages without a clock

// Late by the transfer time and never early: a button that opens too early would be refused.
const serverNow = () => difference + performance.now();

// --- Countdowns --------------------------------------------------------------------------------

function clockface(milliseconds) {
  const all = Math.max(0, Math.ceil(milliseconds / 1000));
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const days = Math.floor(all / 86400);
  const hours = Math.floor(all / 3600) % 24;
  const rest = `${two((all / 60) % 60)}:${two(all % 60)}`;
  if (days) return `${days} ${messages.days} ${two(hours)}:${rest}`;
  return hours ? `${two(hours)}:${rest}` : rest;
}

const announcer = document.querySelector("[data-announcer]");
const announced = new Set();

// Screen readers announce these moments only, not every second, and only on the page of one sale.
function announce(text) {
  if (announced.has(text)) return;
  announced.add(text);
  announcer.textContent = text;
}

class Sale {
  constructor(element) {
    this.element = element;
    this.live = "live" in element.dataset;
    this.early = "early" in element.dataset;
    this.starts = Date.parse(element.dataset.starts);
    this.ends = Date.parse(element.dataset.ends);
    this.mayComeBack = "mayComeBack" in element.dataset;
    const part = (name) => element.querySelector(`[data-${name}]`);
    this.parts = Object.fromEntries(
      ["badge", "left", "meter", "buy", "hint", "to-cart", "sign-in", "countdown",
        "countdown-line", "countdown-label"].map((name) => [name, part(name)]),
    );
    element.querySelector("[data-script]")?.removeAttribute("hidden");
  }

  get status() {
    return this.element.dataset.status;
  }

  set status(status) {
    if (status === this.status) return;
    this.element.dataset.status = status;
    this.write();
    if (status === "open" && this.live) announce(messages.now_open);
  }

  write() {
    const forNow = this.status === "sold_out" && this.mayComeBack;
    const status = forNow ? "may_come_back" : this.status;
    this.parts.badge.textContent = messages[`status_${status}`];
    const { buy, hint, "to-cart": toCart, "sign-in": signIn } = this.parts;
    if (toCart) toCart.hidden = !["open", "not_started"].includes(this.status);
    if (signIn) signIn.hidden = ["sold_out", "ended"].includes(this.status);
    if (buy) {
      buy.disabled = status !== "open";
      buy.textContent = messages[status === "open" ? "buy" : `status_${status}`];
      const hints = { open: messages.safe_to_click_twice, may_come_back: messages.may_come_back };
      if (hint) hint.textContent = hints[status] ?? "";
    }
  }

  tick() {
    const now = serverNow();
    if (this.status === "not_started" && now >= this.starts) {
      this.status = "open";
      this.refresh();
    } else if (this.status !== "ended" && now >= this.ends) {
      this.status = "ended";
    }
    const opening = this.status === "not_started";
    const left = (opening ? this.starts : this.ends) - now;
    this.parts["countdown-line"].hidden = ["sold_out", "ended"].includes(this.status);
    this.parts["countdown-label"].textContent = messages[opening ? "starts_in" : "ends_in"];
    this.parts.countdown.textContent = clockface(left);
    const seconds = Math.ceil(left / 1000);
    if (opening && this.live && (seconds === 60 || seconds === 10)) {
      announce(format("seconds_to_go", { seconds }));
    }
  }

  // Poll the sale, at a random time because all countdowns end in the same instant.
  refresh() {
    clearTimeout(this.next);
    this.next = setTimeout(() => this.ask(), 500 + 1500 * Math.random());
  }

  async ask() {
    if (document.hidden) return; // polled again when the page is visible
    try {
      const answer = await fetch(`/api/v1/sales/${this.element.dataset.sale}`);
      if (answer.ok) this.show(await answer.json());
    } catch {
      // No network: keep the page as it is and poll again later.
    }
    if (this.live && this.status !== "ended") {
      // The stock moves while visitors watch; before the opening and after the last unit it rests.
      const pause = this.status === "open" ? 1000 : 4000;
      this.next = setTimeout(() => this.ask(), pause * (0.75 + 0.5 * Math.random()));
    }
  }

  show(state) {
    // Never early either: the server read its clock before the answer arrived.
    difference = Math.max(difference, Date.parse(state.server_time) - performance.now());
    // The answer is the same for all visitors; only the page knows who may buy earlier.
    this.starts = Date.parse((this.early && state.early_starts_at) || state.starts_at);
    this.ends = Date.parse(state.ends_at);
    const forMe = this.early ? "open" : "not_started";
    this.status = state.status === "early" ? forMe : state.status;
    if (this.mayComeBack !== state.may_come_back) {
      this.mayComeBack = state.may_come_back;
      this.write();
    }
    const total = this.parts.meter.max;
    this.parts.meter.value = state.available;
    this.parts.left.textContent = format("left", { available: state.available, total });
  }
}

const sales = [...document.querySelectorAll("[data-sale]")].map((element) => new Sale(element));
const deadlines = [...document.querySelectorAll("[data-until]")].map((element) => ({
  element,
  until: Date.parse(element.dataset.until),
}));

function tick() {
  for (const sale of sales) sale.tick();
  for (const { element, until } of deadlines) {
    element.textContent = clockface(until - serverNow());
    element.parentElement.hidden = false;
    if (serverNow() >= until) return location.reload();
  }
  // On the server's full second, so that the opening is not shown up to a second late.
  setTimeout(tick, 1000 - (serverNow() % 1000) + 5);
}
if (sales.length || deadlines.length) tick();

for (const sale of sales) if (sale.live) sale.refresh();
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const sale of sales) sale.refresh();
});

// --- Orders that wait for the payment provider ---------------------------------------------------

const waiting = document.querySelector("[data-waiting]");

async function reloadWhenSettled() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href);
      if (answer.ok && !(await answer.text()).includes("data-waiting")) return location.reload();
    } catch {
      // No network: ask again later.
    }
  }
  setTimeout(reloadWhenSettled, 1000 + 500 * Math.random());
}

if (waiting) setTimeout(reloadWhenSettled, 1000);

// --- Times in the visitor's time zone ----------------------------------------------------------

const inWords = new Intl.DateTimeFormat(document.documentElement.lang, {
  dateStyle: "medium",
  timeStyle: "short",
});
for (const time of document.querySelectorAll("time[data-local]")) {
  time.textContent = inWords.format(new Date(time.dateTime));
}

// --- Forms that are sent once ------------------------------------------------------------------
// A courtesy, not a safeguard: the form's key keeps a second click from buying twice.

for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if ("sent" in form.dataset) return event.preventDefault();
    form.dataset.sent = "";
    const button = event.submitter;
    if (button?.matches("[data-buy]")) button.textContent = messages.buying;
  });
}
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload(); // restored from the back/forward cache: get a new key
});

// --- Copying -----------------------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
    button.textContent = messages.copied;
    announce(messages.copied);
  });
}
