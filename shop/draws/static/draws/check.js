// Checks a draw in the browser, from its public file alone: the same as verify.py, with WebCrypto.

const messages = JSON.parse(document.getElementById("draw-messages").textContent);
const format = (name, values = {}) =>
  messages[name].replace(/%\((\w+)\)s/g, (_, value) => values[value]);

const ENTRY = 0;
const WITHDRAWAL = 1;
const text = new TextEncoder();

class Contradiction extends Error {}
class NotOver extends Error {}

const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (digits) => parseInt(digits, 16));
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}

// 8 bytes, the most significant first.
function numberBytes(number) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(number));
  return bytes;
}

const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

// Yields the lines of a response as they arrive, so that a long list is never in memory as a whole.
async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines;
  }
  if (rest) yield rest;
}

async function checkChain(header, lines, number, hash, progress) {
  let running = await sha256(joined(fromHex(header.commitment), text.encode(header.source)));
  const entered = new Set();
  let count = 0;
  for await (const line of lines) {
    const entry = JSON.parse(line);
    count += 1;
    const before = joined(running, numberBytes(count));
    if (entry.withdraws === undefined) {
      running = await sha256(joined(before, [ENTRY], fromHex(entry.entry)));
      entered.add(count);
    } else {
      running = await sha256(joined(before, [WITHDRAWAL], numberBytes(entry.withdraws)));
      if (!entered.delete(entry.withdraws)) throw new Contradiction(format("line", { number: count }));
    }
    if (entry.number !== count || toHex(running) !== entry.hash) {
      throw new Contradiction(format("line", { number: count }));
    }
    if (count === number && entry.hash !== hash) throw new Contradiction(format("receipt"));
    if (count % 2000 === 0) progress(count);
  }
  if (count !== header.lines || toHex(running) !== header.last_hash) {
    throw new Contradiction(format("last_hash"));
  }
  if (number > count) throw new Contradiction(format("receipt"));
  return entered;
}

// How many entries come before one, itself included.
async function placeOf(header, entered, number, progress) {
  const key = await crypto.subtle.importKey(
    "raw",
    joined(fromHex(header.seed), fromHex(header.last_hash), text.encode(header.public_value ?? "")),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  const orderBy = async (each) =>
    toHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, numberBytes(each))));
  const own = await orderBy(number);
  let place = 1;
  let done = 0;
  for (const each of entered) {
    const other = await orderBy(each);
    if (other < own || (other === own && each < number)) place += 1;
    done += 1;
    if (done % 2000 === 0) progress(done);
  }
  return place;
}

async function check({ file, number, hash }, progress) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(response.status);
  const lines = linesOf(response);
  const header = JSON.parse((await lines.next()).value);
  if (!header.seed || !header.last_hash || (header.source && !header.public_value)) {
    throw new NotOver();
  }
  if (toHex(await sha256(fromHex(header.seed))) !== header.commitment) {
    throw new Contradiction(format("seed"));
  }
  const entered = await checkChain(header, lines, number, hash, progress);
  if (!number) return format("agrees");
  if (!entered.has(number)) return `${format("agrees")} ${format("withdrawn", { number })}`;
  const place = await placeOf(header, entered, number, progress);
  return `${format("agrees")} ${format("place", { number, place, entries: entered.size })}`;
}

const button = document.querySelector("[data-check]");
const shown = document.querySelector("[data-checked]");

function show(what, outcome) {
  shown.hidden = false;
  shown.classList.toggle("error", outcome === "contradicts");
  shown.dataset.checked = outcome;
  shown.textContent = what;
}

button.addEventListener("click", async () => {
  if (!globalThis.crypto?.subtle) {
    show(format("insecure"), "not_checked");
    return;
  }
  button.disabled = true;
  const progress = (number) => show(format("checking", { number }), "checking");
  progress(0);
  const { file, number, hash } = button.dataset;
  try {
    show(await check({ file, number: Number(number ?? 0), hash }, progress), "agrees");
  } catch (error) {
    if (error instanceof Contradiction) {
      show(format("contradiction", { what: error.message }), "contradicts");
    } else if (error instanceof NotOver) {
      show(format("not_over"), "not_over");
    } else {
      show(format("unreachable"), "not_checked");
    }
  }
  button.disabled = false;
});
