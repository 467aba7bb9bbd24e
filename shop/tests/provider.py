"""A fake payment provider in the process: tests count its ledger and suppress its answers.

It fulfils the contract of `shop/payments/provider.py`: a repeated key gets the first answer.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from shop.payments.http_provider import HttpProvider
from shop.payments.provider import (
    Action,
    Event,
    Intent,
    IntentStatus,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    ProviderRefund,
)


class FakeProvider(Provider):
    """A provider with a ledger.

    Attributes:
        captures: amounts captured, by order.
        refunds: amounts refunded, by order.
        back: amount refunded of each payment, less what came back again.
        before: called with the name of each call before it takes effect; may raise.
        after: the same afterwards; raising loses the answer.
        slow: captures and refunds stay in progress until `finish`.
        declines: every capture is refused.
        asks: each payment needs the buyer, who answers by `buyer_pays` and `buyer_declines`.
    """

    def __init__(self) -> None:
        self.captures: dict[int, list[int]] = defaultdict(list)
        self.refunds: dict[int, list[int]] = defaultdict(list)
        self.back: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        self.slow = False
        self.declines = False
        self.asks = False
        self.given: dict[str, ProviderRefund] = {}
        self.intents: dict[str, Intent] = {}
        self.on_the_way: dict[str, ProviderRefund] = {}
        self._answers: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

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
        return self._once("create", key, lambda: self._create(order, amount, currency, key))  # type: ignore[no-any-return]

    def capture(self, intent: str, *, key: str) -> Intent:
        return self._once("capture", key, lambda: self._capture(intent))  # type: ignore[no-any-return]

    def cancel(self, intent: str, *, key: str) -> Intent:
        return self._once("cancel", key, lambda: self._cancel(intent))  # type: ignore[no-any-return]

    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        return self._once("refund", key, lambda: self._keep(key, self._refund(intent, amount)))  # type: ignore[no-any-return]

    def get(self, intent: str) -> Intent:
        self.before("get")
        with self._lock:
            return self.intents[intent]

    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        self.before("find_refund")
        with self._lock:
            return self.given.get(key)

    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        return HttpProvider().verify(body, headers)

    def buyer_pays(self, pk: str) -> Intent:
        """Let the buyer authorise a payment; return it for its event."""
        return self._answer(pk, "requires_capture")

    def buyer_declines(self, pk: str) -> Intent:
        """Let the buyer's bank decline a payment; return it for its event."""
        return self._answer(pk, "failed")

    def _answer(self, pk: str, status: IntentStatus) -> Intent:
        with self._lock:
            assert self.intents[pk].status == "requires_action"
            self.intents[pk] = replace(self.intents[pk], status=status, action=None)
            return self.intents[pk]

    def finish(self) -> tuple[list[Intent], list[ProviderRefund]]:
        """Finish operations in progress; return their events."""
        with self._lock:
            working = [i for i in self.intents.values() if i.status == "processing"]
            taken = [self._take(each) for each in working]
            given = [self._give(each) for each in self.on_the_way.values()]
            self.on_the_way.clear()
            return taken, given

    def forget(self) -> None:
        """Drop finished payments, but not the ledger, to save memory in long races."""
        with self._lock:
            self.intents.clear()
            self._answers.clear()

    def _once(self, call: str, key: str, act: Callable[[], Any]) -> Any:
        self.before(call)
        with self._lock:
            if key not in self._answers:
                try:
                    self._answers[key] = act()
                except PaymentDeclined as declined:
                    self._answers[key] = declined
            answer = self._answers[key]
        self.after(call)
        if isinstance(answer, PaymentDeclined):
            raise PaymentDeclined(answer.code)
        return answer

    def _create(self, order: int, amount: int, currency: str, key: str) -> Intent:
        number = f"pi_{next(self._numbers)}"
        intent = Intent(number, order, amount, currency, "requires_capture", reference=key)
        if self.asks:
            action = Action("redirect", url=f"https://provider.example/{number}")
            intent = replace(intent, status="requires_action", action=action)
        self.intents[intent.id] = intent
        return intent

    def _capture(self, pk: str) -> Intent:
        intent = self.intents[pk]
        if self.declines or intent.status != "requires_capture":
            raise PaymentDeclined("declined")
        if self.slow:
            self.intents[pk] = replace(intent, status="processing")
            return self.intents[pk]
        return self._take(intent)

    def _take(self, intent: Intent) -> Intent:
        self.captures[intent.order].append(intent.amount)
        self.intents[intent.id] = replace(intent, status="captured")
        return self.intents[intent.id]

    def _cancel(self, pk: str) -> Intent:
        if self.intents[pk].status not in ("requires_action", "requires_capture"):
            raise PaymentDeclined("too_late")
        self.intents[pk] = replace(self.intents[pk], status="cancelled", action=None)
        return self.intents[pk]

    def _refund(self, pk: str, amount: int) -> ProviderRefund:
        refund = ProviderRefund(f"re_{next(self._numbers)}", pk, amount, "pending")
        if self.slow:
            self.on_the_way[refund.id] = refund
            return refund
        return self._give(refund)

    def _give(self, refund: ProviderRefund) -> ProviderRefund:
        intent = self.intents[refund.intent]
        if refund.amount + self.back[intent.id] > intent.amount:
            raise PaymentDeclined("more_than_captured")
        self.refunds[intent.order].append(refund.amount)
        self.back[intent.id] += refund.amount
        return self._now(replace(refund, status="succeeded"))

    def _keep(self, key: str, refund: ProviderRefund) -> ProviderRefund:
        self.given[key] = refund
        return refund

    def _now(self, refund: ProviderRefund) -> ProviderRefund:
        """Remember the present state of a refund."""
        for key, each in self.given.items():
            if each.id == refund.id:
                self.given[key] = refund
        return refund


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
