"""The buyers of one round: they meet at the cart and at the last step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from loadtest.finished import Finished, UnexpectedAnswer
from loadtest.history import CONNECTION_REFUSED, INFO, OK, Recorder
from loadtest.history import FAIL as REFUSED
from loadtest.rush import books as final
from loadtest.rush.limits import CannotJudge, each_within, within
from loadtest.rush.observer import Observer
from loadtest.rush.plan import Plan, Scene
from loadtest.rush.release import Reply, send, together
from loadtest.shop import (
    Books,
    Buyer,
    Carts,
    Declined,
    Level,
    Outcome,
    Refused,
    Request,
    Shop,
    Sold,
    Unknown,
    Vouchers,
)

STEP = 60.0
"""Seconds that a step of the adapter may take; `prepare` takes that long for every 50 buyers."""

ANSWERS = 30.0
"""Seconds in which all requests that were released together must be answered."""

ATTEMPTS = 4
"""How often a buyer presses the button while the answers are unknown, as in a browser."""

PAUSE = 0.3
"""Seconds before a buyer asks again."""

DOUBLE = 3
"""Where a shop knows repeats, every third buyer clicks twice."""


@dataclass(slots=True)
class Buyers:
    """The buyers of one round, from their carts to the books at rest."""

    shop: Shop
    plan: Plan
    sale: str
    buyers: Sequence[Buyer]
    recorder: Recorder
    observer: Observer
    last: list[Outcome] = field(default_factory=list)
    repeats: int = 0
    _sold: dict[str, final.Asked] = field(default_factory=dict)
    _open: dict[str, final.Asked] = field(default_factory=dict)
    _voucher: str = ""
    _calls: int = 0

    def run(self) -> None:
        """Bring the buyers through both meeting points, until every answer is known."""
        self.last = [Unknown("never asked")] * len(self.buyers)
        self._meet("add to cart", "cart", self.shop.add_to_cart)
        self._prepare()
        if self.plan.scene is Scene.VOUCHERS:
            self._redeem()
        for attempt in range(1, ATTEMPTS + 1):
            asking = [n for n, each in enumerate(self.last) if isinstance(each, Unknown)]
            if not asking:
                return
            if attempt > 1:
                self.repeats += len(asking)
                time.sleep(PAUSE)
            self._buy(asking, attempt)

    def told(self, books: Books) -> final.Told:
        """What the buyers were told. Raises `CannotJudge` if the books use other ids."""
        if self._sold and not set(self._sold) & set(books.orders):
            raise CannotJudge(
                f"none of the {len(self._sold)} orders that buyers were answered with is in the "
                f"books, which name {len(books.orders)}: does the adapter read the same ids?"
            )
        return final.Told(self._sold, list(self._open.values()))

    def extra(self) -> final.Extra:
        """What the books say of vouchers and bills, in the scenes that fight for them."""
        if self.plan.scene is Scene.VOUCHERS:
            read = partial(cast(Vouchers, self.shop).redeemed, self.sale, self._voucher)
            uses = within(STEP, "reading the voucher's uses", read)
            return final.Extra(vouchers=[(self._voucher, self.plan.units, uses)])
        if self.plan.scene is Scene.CARTS:
            read_bills = partial(cast(Carts, self.shop).bills, self.sale)
            bills = within(STEP, "reading the bills", read_bills)
            return final.Extra(bills=bills)
        return final.Extra()

    def _prepare(self) -> None:
        ask = partial(send, self.plan.address)
        self.observer.step(f"taking {len(self.buyers):,} buyers to the last step")
        seconds = STEP * (1 + len(self.buyers) // 50)
        prepared = each_within(
            *(seconds, "preparing the buyers", self.buyers),
            lambda buyer: self.shop.prepare(self.sale, buyer, ask),
        )
        for number, each in enumerate(prepared):
            if isinstance(each, Declined):
                self.last[number] = Refused(str(each))
                self._record_refusal(number, str(each))

    def _redeem(self) -> None:
        shop = cast(Vouchers, self.shop)
        make = partial(shop.voucher, self.sale, self.plan.units)
        self._voucher = within(STEP, "making a voucher", make)
        self._meet("redeem", "voucher", lambda sale, buyer: shop.redeem(sale, buyer, self._voucher))

    def _meet(self, step: str, op: str, request: Callable[[str, Buyer], Request | None]) -> None:
        """Send a request of every buyer at one moment; the answers are looked at by `prepare`."""
        asked = within(STEP, step, lambda: [request(self.sale, each) for each in self.buyers])
        calls = [(n, each) for n, each in enumerate(asked) if each is not None]
        if calls:
            self.observer.step(f"{step}: {len(calls):,} requests at one moment")
        names = [self._invoke(op, number, "", 1) for number, _ in calls]

        def ended(index: int, reply: Reply) -> None:
            answer = reply.response
            status = answer.status if answer else 0
            known = INFO if not status or status >= 500 else REFUSED if status >= 400 else OK
            self.recorder.complete(names[index], known, status=status, code=reply.problem)
            self._tell(op, known, reply, reply.problem)

        self._together([each for _, each in calls], ended)

    def _buy(self, asking: Sequence[int], attempt: int) -> None:
        again = f", attempt {attempt} of those without an answer" if attempt > 1 else ""
        self.observer.step(f"the last step: {len(asking):,} buyers at one moment{again}")
        knows = Level.REPEATS in self.shop.levels
        clicks = [n for n in asking for _ in range(2 if knows and n % DOUBLE == 0 else 1)]
        requests = within(
            *(STEP, "the last step's request"),
            lambda: [self.shop.buy(self.sale, self.buyers[n]) for n in clicks],
        )
        keys = [f"b{n}" if knows else f"b{n}.{attempt}" for n in clicks]
        names = [
            self._invoke("order", n, key, attempt) for n, key in zip(clicks, keys, strict=True)
        ]

        # Where carts are fought for, each purchase has a companion that adds to its cart.
        each = 1
        if self.plan.scene is Scene.CARTS:
            add = partial(cast(Carts, self.shop).add_more, self.sale)
            more = within(STEP, "adding to the cart", lambda: [add(self.buyers[n]) for n in clicks])
            requests = [one for pair in zip(requests, more, strict=True) for one in pair]
            each = 2

        def ended(index: int, reply: Reply) -> None:
            number, companion = divmod(index, each)
            if not companion:
                self._hear(clicks[number], keys[number], names[number], reply)

        self._together(requests, ended)

    def _together(self, requests: Sequence[Request], ended: Callable[[int, Reply], None]) -> None:
        if requests:
            together(
                *(self.plan.address, requests),
                release=self.plan.release,
                timeout=ANSWERS,
                ended=ended,
            )

    def _invoke(self, op: str, number: int, key: str, attempt: int) -> str:
        self._calls += 1
        call, buyer = f"b{number}#{self._calls}", f"b{number}"
        self.recorder.invoke(
            *(call, op),
            client=buyer,
            buyer=buyer,
            sale=self.sale,
            item=self.sale,
            key=key,
            attempt=attempt,
            quantity=1 if op == "order" else 0,
        )
        return call

    def _record_refusal(self, number: int, reason: str) -> None:
        call = self._invoke("order", number, f"b{number}", 1)
        self.recorder.complete(call, REFUSED, code=reason)

    def _hear(self, number: int, key: str, call: str, reply: Reply) -> None:
        """Take in the answer to a last step."""
        outcome = self._outcome(number, reply)
        status = reply.response.status if reply.response else 0
        end = partial(self.recorder.complete, call, status=status)
        asked = final.Asked(key, f"b{number}")
        match outcome:
            case Sold():
                end(outcome=OK, order=outcome.order, quantity=outcome.units)
                self._tell("order", OK, reply, "")
                self._sold.setdefault(outcome.order, asked)
                self._open.pop(key, None)
            case Refused():
                end(code=outcome.reason, outcome=REFUSED)
                self._tell("order", REFUSED, reply, outcome.reason)
            case Unknown():
                end(code=outcome.detail, outcome=INFO)
                self._tell("order", INFO, reply, outcome.detail)
                if all(each.key != key for each in self._sold.values()):
                    self._open[key] = asked
        if not isinstance(self.last[number], Sold):
            self.last[number] = outcome

    def _tell(self, op: str, outcome: str, reply: Reply, said: str) -> None:
        answer = reply.response
        status = str(answer.status) if answer else ""
        self.observer.call(
            Finished(
                op,
                outcome,
                f"{op}: {said or status}",
                (reply.end - reply.start) / 1e6,
                len(answer.body) if answer else 0,
                UnexpectedAnswer(f"{status} {said}".strip()) if outcome == INFO else None,
            )
        )

    def _outcome(self, number: int, reply: Reply) -> Outcome:
        if reply.response is None:
            if "ECONNREFUSED" in reply.problem:
                return Refused(CONNECTION_REFUSED)
            return Unknown(reply.problem)
        try:
            return self.shop.outcome(self.sale, self.buyers[number], reply.response)
        except Exception as error:
            raise CannotJudge(
                f"understanding an answer failed: {type(error).__name__}: {error}"
            ) from error
