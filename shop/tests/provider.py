"""The fake payment provider without its HTTP: tests count its ledger and suppress its answers.

What a provider does is decided in `development/psp/books.py`, here as in the process that serves
it. This module lets a test act between the shop and these books.
"""

from __future__ import annotations

import math
import sqlite3
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import asdict

from development.psp.books import AT_ONCE, Answer, Behaviour, Books, NoSuchIntent
from shop.payments.http_provider import DEFINITE, HttpProvider
from shop.payments.provider import (
    Action,
    Event,
    Intent,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    ProviderRefund,
)

DAY = 86_400_000
"""Milliseconds that a slow provider works, unless a test lets it finish."""


class FakeProvider(Provider):
    """A provider with books in memory, which threads may call at once.

    Attributes:
        books: what it knows.
        before: called with the name of each call before it takes effect; may raise.
        after: the same afterwards; raising loses the answer.
        action: what the buyer has to do for a payment that needs the buyer, by its id.
    """

    def __init__(self) -> None:
        self.books = Books(":memory:", Behaviour(page=False))
        weakref.finalize(self, self.books.close)
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        self.action: Callable[[str], Action] = lambda intent: Action(
            "redirect", url=f"https://provider.example/{intent}"
        )
        self._finishing = threading.Lock()

    # --- how it behaves -----------------------------------------------------------------------

    @property
    def slow(self) -> bool:
        """Whether captures and refunds stay in progress until `finish`."""
        return self.books.behaviour.processing > 0

    @slow.setter
    def slow(self, slow: bool) -> None:
        self._behave(processing=DAY if slow else 0)

    @property
    def declines(self) -> bool:
        """Whether every capture is refused."""
        return self.books.behaviour.decline > 0

    @declines.setter
    def declines(self, declines: bool) -> None:
        self._behave(decline=1.0 if declines else 0.0)

    @property
    def asks(self) -> bool:
        """Whether each payment needs the buyer: see `buyer_pays` and `buyer_declines`."""
        return self.books.behaviour.asks > 0

    @asks.setter
    def asks(self, asks: bool) -> None:
        self._behave(asks=1.0 if asks else 0.0)

    def _behave(self, **fields: Any) -> None:
        self.books.behave(asdict(self.books.behaviour) | fields)

    # --- what the shop asks -------------------------------------------------------------------

    def create_intent(
        self,
        *,
        order: int,
        amount: int,
        currency: str,
        key: str,
        return_url: str = "",
        expires: datetime | None = None,
    ) -> Intent:
        # Without the end: tests move the shop's clock, and not the provider's.
        return self._intent(
            self._once(
                "create",
                key,
                f"{order} {amount} {currency}",
                lambda: self.books.create(order, amount, currency, key, return_url),
            )
        )

    def capture(self, intent: str, *, key: str) -> Intent:
        return self._intent(self._once("capture", key, intent, lambda: self.books.capture(intent)))

    def cancel(self, intent: str, *, key: str) -> Intent:
        return self._intent(self._once("cancel", key, intent, lambda: self.books.cancel(intent)))

    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        document = self._once(
            "refund", key, f"{intent} {amount}", lambda: self._refund(intent, amount, key)
        )
        return msgspec.convert(document, ProviderRefund)

    def get(self, intent: str) -> Intent:
        self.before("get")
        try:
            return self.intent_now(intent)
        except NoSuchIntent as error:
            raise PaymentUnknown(f"404 {error}") from error

    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        self.before("find_refund")
        found = self.books.refunds(intent, key)
        return msgspec.convert(found[0], ProviderRefund) if found else None

    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        return HttpProvider().verify(body, headers)

    def _refund(self, intent: str, amount: int, key: str) -> Answer:
        """Refund; a test may refuse instead."""
        return self.books.refund(intent, amount, key)

    def _once(
        self, call: str, key: str, asked: str, effect: Callable[[], Answer]
    ) -> dict[str, Any]:
        """Execute a request once per key; return the document of a definite success."""
        self.before(call)
        try:
            (status, document), _ = self.books.once(key, f"{call} {asked}", effect)
        except NoSuchIntent as error:
            raise PaymentUnknown(f"404 {error}") from error
        self.after(call)
        if status in DEFINITE:
            raise PaymentDeclined(document["error"]["code"])
        if status != 200:
            raise PaymentUnknown(f"{status} {document}")
        return document

    def _intent(self, document: Mapping[str, Any]) -> Intent:
        intent = msgspec.convert(document, Intent)
        if intent.status == "requires_action":
            return replace(intent, action=self.action(intent.id))
        return intent

    # --- what tests see and do ----------------------------------------------------------------

    @property
    def captures(self) -> dict[int, list[int]]:
        """The amounts captured, by order."""
        return self._moved("capture")

    @property
    def refunds(self) -> dict[int, list[int]]:
        """The amounts refunded, by order."""
        return self._moved("refund")

    @property
    def intents(self) -> dict[str, Intent]:
        """The payments by their ids, the oldest first."""
        found = map(self._intent, self.sql("SELECT * FROM intent ORDER BY rowid"))
        return {intent.id: intent for intent in found}

    @property
    def pending_refunds(self) -> list[ProviderRefund]:
        """The refunds in progress, the oldest first."""
        return self._refunds("SELECT * FROM refund WHERE status = 'pending' ORDER BY rowid")

    def buyer_pays(self, intent: str) -> Intent:
        """Let the buyer authorise a payment; return it for its event."""
        return self._answer(intent, agrees=True)

    def buyer_declines(self, intent: str) -> Intent:
        """Let the buyer's bank decline a payment; return it for its event."""
        return self._answer(intent, agrees=False)

    def take(self, intent: str) -> Intent:
        """Take the money, whatever became of the payment before; return it for its event."""
        self.sql("UPDATE intent SET status = 'processing' WHERE id = ?", intent)
        line = "INSERT INTO ledger (intent, operation, amount) SELECT id, 'capture', amount"
        self.sql(f"{line} FROM intent WHERE id = ?", intent)
        return self.intent_now(intent)

    def finish(self) -> tuple[list[Intent], list[ProviderRefund]]:
        """Finish operations in progress; return their events."""
        with self._finishing:  # so that each is returned once
            captures = self.sql("SELECT id FROM intent WHERE status = 'processing' ORDER BY rowid")
            refunds = self.pending_refunds
            for _ in range(0, max(len(captures), len(refunds)), AT_ONCE):
                self.books.settle(math.inf)
            taken = [self.intent_now(row["id"]) for row in captures]
            given = [self.refund_now(refund.id) for refund in refunds]
            return taken, given

    def intent_now(self, intent: str) -> Intent:
        """Return the present state of a payment, as no request of the shop."""
        return self._intent(dict(self.books.intent(intent)))

    def refund_now(self, number: str) -> ProviderRefund:
        """Return the present state of a refund."""
        [refund] = self._refunds("SELECT * FROM refund WHERE id = ?", number)
        return refund

    def sql(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Run a statement in its books, for what no request does; return its rows, if any."""
        return [dict(row) for row in self.books._run(statement, *values)]

    def dump(self) -> bytes:
        """Return all that is in its books."""
        return self.books._database.serialize()

    def load(self, dumped: bytes) -> None:
        """Replace its books."""
        with closing(sqlite3.connect(":memory:")) as other:
            other.deserialize(dumped)
            # By a backup: what `deserialize` replaces must have no statement that was prepared.
            other.backup(self.books._database)

    def _answer(self, pk: str, *, agrees: bool) -> Intent:
        assert self.books.is_open(self.books.intent(pk))
        self.books.authorise(pk, agrees=agrees)
        return self.intent_now(pk)

    def _refunds(self, statement: str, *values: object) -> list[ProviderRefund]:
        return [msgspec.convert(row, ProviderRefund) for row in self.sql(statement, *values)]

    def _moved(self, operation: str) -> dict[int, list[int]]:
        found = defaultdict[int, list[int]](list)
        for line in self.books.ledger():
            if line["operation"] == operation:
                found[line["order"]].append(line["amount"])
        return found


def lost(*calls: str) -> Callable[[str], None]:
    """Return a hook that loses the answer of the first call of each name."""
    left = list(calls)

    def hook(call: str) -> None:
        if call in left:
            left.remove(call)
            raise PaymentUnknown(call)

    return hook


class Crash(BaseException):
    """The process ends."""


def crash_at(call: str) -> Callable[[str], None]:
    """Return a hook that crashes at a call."""

    def hook(made: str) -> None:
        if made == call:
            raise Crash

    return hook
