"""The provider's operations: create, capture, cancel, refund, and the events they cause.

One transaction each. One process serves, and no other thread or greenlet of it runs during a
transaction: the second of two concurrent requests sees the result of the first.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec

Answer = tuple[int, dict[str, Any]]
"""HTTP status and document."""

SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")

ADDED = (
    ("intent", "reference", "TEXT NOT NULL DEFAULT ''"),
    ("intent", "return_url", "TEXT NOT NULL DEFAULT ''"),
    ("intent", "expires", "REAL"),
    ("refund", "reference", "TEXT NOT NULL DEFAULT ''"),
)
"""Columns that a file of an earlier version lacks."""

AT_ONCE = 64
"""Maximum number of events claimed at once, and of captures and refunds settled."""

# The first pause exceeds the time of a send. A real provider pauses for up to hours; in a
# demonstration, people wait for the recovery after a fault.
CLAIM = """
UPDATE event SET attempts = attempts + 1, due = ? + min(0.25 * (1 << min(attempts, 10)), 5)
WHERE id IN (SELECT id FROM event WHERE remaining > 0 AND due <= ? ORDER BY due LIMIT ?)
RETURNING id, body
"""


Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configured misbehaviour of the provider; by default, it has no faults.

    Rates are from 0 to 1, times in ms, at most a day. Random faults depend on the seed and on what
    they affect, not on the order of requests: a run with the same orders and the same seed has the
    same faults.

    Attributes:
        seed: of random faults.
        delay: before every answer, at most a minute: else nobody could end it.
        processing: time until captures and refunds are decided; 0: at once.
        page: whether a buyer with a browser pays on the provider's page; if not, the shop may
            capture at once.
        asks: share of the other payments that need the buyer too.
        decline: share of captures that fail.
        bounce: share of refunds that fail.
        lost: share of answers that are lost although the request took effect.
        copies: deliveries per webhook.
        shuffle: maximum random delay of a webhook.
        webhook_url: where webhooks go; empty: none are sent.
    """

    seed: int = 0
    delay: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 0
    processing: Milliseconds = 0
    page: bool = True
    asks: Share = 0.0
    decline: Share = 0.0
    bounce: Share = 0.0
    lost: Share = 0.0
    copies: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    shuffle: Milliseconds = 0
    webhook_url: str = ""

    def strikes(self, rate: float, *what: object) -> bool:
        """Decide whether a fault of rate `rate` hits `what`."""
        return self.draw(*what) < rate

    def draw(self, *what: object) -> float:
        """Return a number in [0, 1) that is always the same for the same input."""
        text = "/".join(map(str, (self.seed, *what)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


class NoSuchIntent(Exception):
    """No payment has this id."""


class Books:
    """Payments, refunds, the ledger and events in an SQLite file; `:memory:` for none.

    All threads of a process may use them at once.

    Args:
        file: path.
        default: the behaviour until `behave` changes it.
    """

    def __init__(self, file: str, default: Behaviour) -> None:
        self._default = msgspec.structs.asdict(default)
        # They share one connection, on which one of them at a time has a transaction.
        self._lock = threading.RLock()
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        # After a crash of the machine the last transactions may be missing; never after a kill.
        self._database.executescript(
            f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;"
            f"{SCHEMA}"
        )
        for table, column, definition in ADDED:
            if not self._run("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", table, column):
                self._run(f"ALTER TABLE {table} ADD {column} {definition}")
        row = self._one("SELECT fields FROM behaviour")
        self.behaviour = self._with(json.loads(row["fields"]) if row else {})

    def behave(self, fields: dict[str, Any]) -> Behaviour:
        """Change the behaviour; fields that are not given return to their defaults.

        Raises:
            ValueError: a field is unknown, of the wrong type or out of its bounds.
        """
        self.behaviour = self._with(fields)
        # Defaults are not stored: the shop's address may change at a restart.
        self._run("INSERT OR REPLACE INTO behaviour VALUES (1, ?)", json.dumps(fields))
        return self.behaviour

    def once(self, key: str, asked: str, effect: Callable[[], Answer]) -> tuple[Answer, bool]:
        """Execute a request once per key; return its answer, and whether it was executed now.

        Key, effect and answer are one transaction.
        """
        with self._transaction():
            earlier = self._one("SELECT * FROM request WHERE key = ?", key)
            if earlier is None:
                status, document = effect()
                values = (key, asked, status, json.dumps(document))
                self._run("INSERT INTO request VALUES (?, ?, ?, ?)", *values)
                return (status, document), True
        if earlier["asked"] != asked:
            return refusal(422, "idempotency_key_reused"), False
        return (earlier["status"], json.loads(earlier["document"])), False

    def create(
        self,
        order: int,
        amount: int,
        currency: str,
        reference: str = "",
        return_url: str = "",
        expires: float | None = None,
    ) -> Answer:
        """Create a payment, which names the key of its request in every answer and event.

        It needs the buyer, on the page, if it has a page to return to and the behaviour says so.
        """
        pk, now = f"pi_{uuid4().hex}", self.behaviour
        attempt = len(self._intents_of(order)) if now.asks else 0
        with_page = now.page and bool(return_url)
        asks = with_page or now.strikes(now.asks, "asks", order, attempt)
        self._run(
            'INSERT INTO intent (id, "order", amount, currency, created, reference, status, '
            "return_url, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            pk,
            order,
            amount,
            currency,
            time.time(),
            reference,
            "requires_action" if asks else "requires_capture",
            return_url,
            expires,
        )
        return 200, intent_document(self._intent(pk))

    def intent(self, intent_id: str) -> sqlite3.Row:
        """Return a payment.

        Raises:
            NoSuchIntent: no payment has this id.
        """
        return self._intent(intent_id)

    def is_open(self, intent: sqlite3.Row) -> bool:
        """Return whether the buyer may still pay."""
        in_time = intent["expires"] is None or time.time() < intent["expires"]
        return intent["status"] == "requires_action" and in_time

    def authorise(self, intent_id: str, *, agrees: bool) -> None:
        """Record the buyer's answer, if the payment still waits for it: the money may be captured
        now, or the payment has failed.

        Raises:
            NoSuchIntent: no payment has this id.
        """
        with self._transaction():
            intent = self._intent(intent_id)
            if not self.is_open(intent):
                return
            self._set_status("intent", intent_id, "requires_capture" if agrees else "failed")
            intent = self._intent(intent_id)
            document = intent_document(intent)
            self._emit(f"payment_intent.{intent['status']}", intent["order"], document)

    def capture(self, intent_id: str) -> Answer:
        """Take the money. A captured payment is never captured again, under any key.

        Raises:
            NoSuchIntent: no payment has this id.
        """
        intent = self._intent(intent_id)
        if intent["status"] == "requires_capture":
            if processing := self.behaviour.processing:
                self._set_status("intent", intent_id, "processing")
                due = time.time() + processing / 1000
                self._run("UPDATE intent SET due = ? WHERE id = ?", due, intent_id)
            else:
                self._take(intent)
            intent = self._intent(intent_id)
        if intent["status"] == "failed":
            return refusal(402, "card_declined")
        if intent["status"] in {"cancelled", "requires_action"}:
            return refusal(409, f"intent_{intent['status']}")
        return 200, intent_document(intent)

    def cancel(self, intent_id: str) -> Answer:
        """Cancel a payment for good, unless it is captured or processing.

        Raises:
            NoSuchIntent: no payment has this id.
        """
        intent = self._intent(intent_id)
        if intent["status"] in {"captured", "processing"}:
            return refusal(409, f"intent_{intent['status']}")
        if intent["status"] in {"requires_action", "requires_capture"}:
            self._set_status("intent", intent_id, "cancelled")
            intent = self._intent(intent_id)
            self._emit("payment_intent.cancelled", intent["order"], intent_document(intent))
        return 200, intent_document(intent)

    def refund(self, intent_id: str, amount: int, reference: str = "") -> Answer:
        """Refund money, in total at most the captured amount, pending refunds included.

        Raises:
            NoSuchIntent: no payment has this id.
        """
        intent = self._intent(intent_id)
        promised = self._one(
            "SELECT total(amount) AS all_ FROM refund WHERE intent = ? AND status <> 'failed'",
            intent_id,
        )
        assert promised is not None
        if amount > intent["captured"] - promised["all_"]:
            return refusal(409, "refund_exceeds_capture")
        processing = self.behaviour.processing
        pk, due = f"re_{uuid4().hex}", time.time() + processing / 1000
        self._run(
            "INSERT INTO refund VALUES (?, ?, ?, 'pending', ?, ?)",
            pk,
            intent_id,
            amount,
            due,
            reference,
        )
        if not processing:
            self._give_back(self._refund(pk))
        return 200, refund_document(self._refund(pk))

    def settle(self, now: float | None = None) -> None:
        """Decide captures and refunds that are due.

        Args:
            now: seconds since 1970; by default the present time.
        """
        due = "SELECT * FROM {} WHERE status = '{}' AND due <= ? ORDER BY due LIMIT ?"
        with self._transaction():
            limits = (time.time() if now is None else now, AT_ONCE)
            for intent in self._run(due.format("intent", "processing"), *limits):
                self._take(intent)
            for given in self._run(due.format("refund", "pending"), *limits):
                self._give_back(given)

    def claim_events(self) -> list[tuple[str, str]]:
        """Return ids and bodies of due events; each is due again after a pause, until `sent`."""
        now = time.time()
        return [(row["id"], row["body"]) for row in self._run(CLAIM, now, now, AT_ONCE)]

    def sent(self, event: str) -> None:
        """Record that the shop has accepted a copy of an event."""
        self._run("UPDATE event SET remaining = remaining - 1 WHERE id = ?", event)

    def refunds(self, intent_id: str, reference: str) -> list[dict[str, Any]]:
        """Return the refund of a payment that was asked for under a key, if there is one."""
        statement = "SELECT * FROM refund WHERE intent = ? AND reference = ? ORDER BY rowid"
        return [refund_document(row) for row in self._run(statement, intent_id, reference)]

    def ledger(self) -> list[sqlite3.Row]:
        """Return all movements, oldest first."""
        return self._run(
            'SELECT ledger.id, "order", intent, operation, ledger.amount, currency, reference '
            "FROM ledger JOIN intent ON intent.id = intent ORDER BY ledger.id"
        )

    def totals(self) -> tuple[list[sqlite3.Row], list[sqlite3.Row]]:
        """Return the sums by currency and by status."""
        sums = "SELECT currency, sum(captured) AS captured, sum(refunded) AS refunded FROM intent"
        states = "SELECT status, count(*) AS payments FROM intent GROUP BY status"
        return self._run(f"{sums} GROUP BY currency ORDER BY currency"), self._run(states)

    def latest(self, number: int) -> list[sqlite3.Row]:
        """Return the latest payments, the newest first."""
        return self._run("SELECT * FROM intent ORDER BY created DESC, rowid DESC LIMIT ?", number)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _with(self, fields: dict[str, Any]) -> Behaviour:
        return msgspec.convert({**self._default, **fields}, Behaviour)

    def _take(self, intent: sqlite3.Row) -> None:
        """Capture the payment, or fail it as the behaviour demands."""
        now, pk, order = self.behaviour, intent["id"], intent["order"]
        # Each attempt to pay an order draws anew.
        attempt = len(self._intents_of(order)) if now.decline else 0
        if now.strikes(now.decline, "decline", order, attempt):
            self._set_status("intent", pk, "failed")
        else:
            line = "INSERT INTO ledger (intent, operation, amount) VALUES (?, 'capture', ?)"
            self._run(line, pk, intent["amount"])
        intent = self._intent(pk)
        self._emit(f"payment_intent.{intent['status']}", order, intent_document(intent))

    def _give_back(self, given: sqlite3.Row) -> None:
        """Refund the money, or fail the refund as the behaviour demands."""
        now, pk, intent = self.behaviour, given["id"], self._intent(given["intent"])
        attempts = self._run("SELECT id FROM refund WHERE intent = ?", intent["id"])
        if now.strikes(now.bounce, "bounce", intent["order"], len(attempts)):
            self._set_status("refund", pk, "failed")
        else:
            line = (
                "INSERT INTO ledger (intent, refund, operation, amount) VALUES (?, ?, 'refund', ?)"
            )
            self._run(line, intent["id"], pk, given["amount"])
            self._set_status("refund", pk, "succeeded")
        given = self._refund(pk)
        self._emit(f"refund.{given['status']}", intent["order"], refund_document(given))

    def _emit(self, kind: str, order: int, document: dict[str, Any]) -> None:
        """Add an event in this transaction."""
        now = self.behaviour
        if not now.webhook_url:
            return
        pk, at = f"evt_{uuid4().hex}", time.time()
        body = json.dumps({"id": pk, "type": kind, "created": int(at), "data": document})
        due = at + now.shuffle * now.draw("shuffle", order, kind) / 1000
        self._run("INSERT INTO event VALUES (?, ?, ?, 0, ?)", pk, body, max(now.copies, 1), due)

    def _intents_of(self, order: int) -> list[sqlite3.Row]:
        return self._run('SELECT id FROM intent WHERE "order" = ?', order)

    def _intent(self, pk: str) -> sqlite3.Row:
        row = self._one("SELECT * FROM intent WHERE id = ?", pk)
        if row is None:
            raise NoSuchIntent(pk)
        return row

    def _refund(self, pk: str) -> sqlite3.Row:
        row = self._one("SELECT * FROM refund WHERE id = ?", pk)
        assert row is not None
        return row

    def _set_status(self, table: str, pk: str, status: str) -> None:
        self._run(f"UPDATE {table} SET status = ? WHERE id = ?", status, pk)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _run(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()

    def _one(self, statement: str, *values: object) -> sqlite3.Row | None:
        rows = self._run(statement, *values)
        return rows[0] if rows else None


def intent_document(intent: sqlite3.Row) -> dict[str, Any]:
    """Return a payment as in the API."""
    names = ("id", "order", "amount", "currency", "status", "refunded", "reference")
    return {"object": "payment_intent", **{name: intent[name] for name in names}}


def refund_document(given: sqlite3.Row) -> dict[str, Any]:
    """Return a refund as in the API."""
    names = ("id", "intent", "amount", "status")
    return {"object": "refund", **{name: given[name] for name in names}}


def refusal(status: int, code: str) -> Answer:
    """Return a definite refusal."""
    return status, {"error": {"code": code}}
