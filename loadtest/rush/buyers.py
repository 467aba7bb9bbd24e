"""The buyers of one round: they meet at the cart and at the last step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, cast

from loadtest.address import RunImpossible
from loadtest.bounded import STEP, each_within, valid, within
from loadtest.checker import snapshot
from loadtest.finished import Finished, UnexpectedAnswer
from loadtest.history import CONNECTION_REFUSED, INFO, OK, Operation, Recorder
from loadtest.history import FAIL as REFUSED
from loadtest.report.headline import counted
from loadtest.rush.plan import Observer, Plan
from loadtest.rush.release import Reply, send, together
from loadtest.shop import (
    Bill,
    Books,
    Buyer,
    Cancels,
    Carts,
    Declined,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Shop,
    Sold,
    Unknown,
    Vouchers,
)

EACH = 3.0
"""Further seconds per buyer, to make them and to take them to the last step."""

ANSWERS = 60.0
"""Seconds for the answers to requests that were released together: as long as nginx waits."""

ATTEMPTS = 4
"""How often a buyer presses the button while the answers are unknown, as in a browser."""

PAUSE = 0.3
"""Seconds before a buyer asks again."""

DOUBLE = 3
"""Where a shop knows repeats, every third buyer clicks twice."""


class Asked(NamedTuple):
    """Who asked for an order: the key of the purchase and the buyer."""

    key: str
    buyer: str


@dataclass(slots=True)
class Buyers:
    """The buyers of one round, from their carts to the books at rest.

    Attributes:
        last: each buyer's last outcome.
        repeats: how often buyers asked again.
    """

    shop: Shop
    plan: Plan
    sale: str
    buyers: Sequence[Buyer]
    recorder: Recorder
    observer: Observer
    last: list[Outcome] = field(default_factory=list)
    repeats: int = 0
    _sold: dict[str, Asked] = field(default_factory=dict)
    _open: dict[str, Asked] = field(default_factory=dict)
    _voucher: str = ""
    _calls: int = 0

    def run(self) -> None:
        """Bring the buyers through both meeting points, until every answer is known."""
        self.last = [Unknown("never asked")] * len(self.buyers)
        self._meet("add to cart", "cart", self.shop.add_to_cart)
        self._prepare()
        if self.plan.scene is Level.VOUCHERS:
            shop = cast(Vouchers, self.shop)
            make = partial(shop.voucher, self.sale, self.plan.units)
            self._voucher = within(STEP, "making a voucher", lambda: valid(str, make()))
            self._meet("redeem", "voucher", partial(shop.redeem, voucher=self._voucher))
        for attempt in range(1, ATTEMPTS + 1):
            asking = [n for n, each in enumerate(self.last) if isinstance(each, Unknown)]
            if not asking:
                break
            if attempt > 1:
                self.repeats += len(asking)
                time.sleep(PAUSE)
            self._buy(asking, attempt)
        if self.plan.scene is Level.CANCEL:
            self._cancel()

    def rows(self, books: Books) -> Iterator[snapshot.Row]:
        """Yield the shop's own books, with who asked for each order, as the checker reads them.

        Raises:
            RunImpossible: the books use other ids than the answers.
        """
        cancelled = self.plan.scene is Level.CANCEL
        if self._sold and not cancelled and not self._sold.keys() & books.orders.keys():
            raise RunImpossible(
                f"none of the {len(self._sold)} orders that buyers were answered with is in the "
                f"books, which name {len(books.orders)}: does the adapter read the same ids?"
            )
        sale, sold = self.sale, sum(books.orders.values())
        # Without a figure of its own for what is left, the shop says nothing that could disagree.
        available = books.total - sold if books.available is None else books.available
        yield snapshot.Sale(sale, sale, 0)
        yield snapshot.Item(sale, books.total, available, 0, sold, available)
        unanswered = iter(self._open.values())
        for number, (order, units) in enumerate(books.orders.items()):
            # An order that no answer names may be that of any purchase without an answer.
            asked = self._sold.get(order) or next(unanswered, None)
            key, buyer = asked or Asked(f"not asked for {number}", "nobody")
            held, confirmed = str(number), snapshot.CONFIRMED
            yield snapshot.Reservation(held, sale, buyer, key, units, state=confirmed)
            yield snapshot.Order(order, held, sale, sale, buyer, key, units)
        if self.plan.scene is Level.VOUCHERS:
            read = partial(cast(Vouchers, self.shop).redeemed, sale, self._voucher)
            uses = within(STEP, "reading the voucher's uses", lambda: valid(int, read()))
            yield snapshot.Voucher(self._voucher, self.plan.units, uses)
        if self.plan.scene is Level.CARTS:
            read_bills = partial(cast(Carts, self.shop).bills, sale)
            step = "reading the bills"
            bills = within(STEP, step, lambda: valid(dict[str, Bill], read_bills()))
            for order, bill in bills.items():
                yield snapshot.Bill(order, bill.paid, bill.worth)

    def _prepare(self) -> None:
        ask = partial(send, self.plan.address, timeout=STEP)

        def prepare(buyer: Buyer) -> str | None:
            try:
                self.shop.prepare(self.sale, buyer, ask)
            except Declined as refusal:
                return str(refusal)
            return None

        self.observer.step(f"taking {counted(len(self.buyers), 'buyer')} to the last step")
        seconds = STEP + EACH * len(self.buyers)
        declined = each_within(seconds, "preparing the buyers", self.buyers, prepare)
        for number, reason in enumerate(declined):
            if reason is not None:
                self.last[number] = Refused(reason)
                call = self._invoke("order", number, f"b{number}", 1)
                self.recorder.complete(call, REFUSED, code=reason)

    def _meet(self, step: str, op: str, request: Callable[[str, Buyer], Request | None]) -> None:
        """Send a request of every buyer at one moment; the answers are looked at by `prepare`."""
        asked = within(
            *(STEP, step),
            lambda: valid(list[Request | None], [request(self.sale, n) for n in self.buyers]),
        )
        calls = [(n, each) for n, each in enumerate(asked) if each is not None]
        if calls:
            self.observer.step(f"{step}: {len(calls):,} requests at one moment")
            self._send(op, calls)

    def _buy(self, asking: Sequence[int], attempt: int) -> None:
        again = f", attempt {attempt} of those without an answer" if attempt > 1 else ""
        self.observer.step(f"the last step: {counted(len(asking), 'buyer')} at one moment{again}")
        knows = Level.REPEATS in self.shop.levels
        clicks = [n for n in asking for _ in range(2 if knows and n % DOUBLE == 0 else 1)]
        requests = self._requests("the last step's request", self.shop.buy, clicks)
        keys = [f"b{n}" if knows else f"b{n}.{attempt}" for n in clicks]
        names = [
            self._invoke("order", n, key, attempt) for n, key in zip(clicks, keys, strict=True)
        ]

        # Where carts are fought for, each purchase has a companion that adds to its cart.
        each = 1
        if self.plan.scene is Level.CARTS:
            more = self._requests("adding to the cart", cast(Carts, self.shop).add_more, clicks)
            requests = [one for pair in zip(requests, more, strict=True) for one in pair]
            each = 2

        def ended(index: int, reply: Reply) -> None:
            number, companion = divmod(index, each)
            if not companion:
                self._hear(clicks[number], keys[number], names[number], reply)

        self._together(requests, ended)

    def _requests(
        self, step: str, request: Callable[[str, Buyer], Request], numbers: Sequence[int]
    ) -> list[Request]:
        return within(
            *(STEP, step),
            lambda: valid(list[Request], [request(self.sale, self.buyers[n]) for n in numbers]),
        )

    def _cancel(self) -> None:
        """Cancel every order twice at one moment; what it held must come back once."""
        cancel, sold = cast(Cancels, self.shop).cancel, enumerate(self.last)
        twice = [(n, each.order) for n, each in sold if isinstance(each, Sold) for _ in range(2)]
        self.observer.step(f"cancelling {len(twice) // 2:,} orders, each twice at one moment")
        calls = within(
            *(STEP, "the request to cancel"),
            lambda: valid(
                list[tuple[int, Request]],
                [(n, cancel(self.sale, self.buyers[n], order)) for n, order in twice],
            ),
        )
        if not self._send("cancel", calls) and twice:
            raise RunImpossible("the shop cancelled none of its orders")

    def _send(self, op: str, calls: Sequence[tuple[int, Request]]) -> int:
        """Send buyers' requests that are no purchases at one moment: how many were granted."""
        names = [self._invoke(op, number, "", 1) for number, _ in calls]
        granted = []

        def ended(index: int, reply: Reply) -> None:
            outcome = _by_status(reply)
            self._complete(names[index], op, reply, outcome)
            granted.extend([index] if isinstance(outcome, Sold) else [])

        self._together([request for _, request in calls], ended)
        return len(granted)

    def _together(self, requests: Sequence[Request], ended: Callable[[int, Reply], None]) -> None:
        address, release = self.plan.address, self.plan.release
        together(address, requests, release=release, timeout=ANSWERS, ended=ended)

    def _invoke(self, op: str, number: int, key: str, attempt: int) -> str:
        self._calls += 1
        call, buyer = f"b{number}#{self._calls}", f"b{number}"
        about = key, attempt, self.sale, self.sale, 1 if op == "order" else 0
        self.recorder.invoke(Operation(0, call, op, buyer, buyer, *about))
        return call

    def _hear(self, number: int, key: str, call: str, reply: Reply) -> None:
        """Take in the answer to a last step."""
        outcome, asked = self._outcome(number, reply), Asked(key, f"b{number}")
        self._complete(call, "order", reply, outcome)
        if isinstance(outcome, Sold):
            self._sold.setdefault(outcome.order, asked)
            self._open.pop(key, None)
        elif isinstance(outcome, Unknown) and asked not in self._sold.values():
            self._open[key] = asked
        if not isinstance(self.last[number], Sold):
            self.last[number] = outcome

    def _complete(self, call: str, op: str, reply: Reply, outcome: Outcome) -> None:
        """Record an answer, and tell the observer."""
        answer = reply.response
        status = answer.status if answer else 0
        match outcome:
            case Sold():
                said, kind = "", OK
            case Refused():
                said, kind = outcome.reason, REFUSED
            case Unknown():
                said, kind = outcome.detail, INFO
        sold = outcome if isinstance(outcome, Sold) else Sold("", 0)
        record = partial(self.recorder.complete, call, kind, status=status, code=said)
        record(order=sold.order or None, quantity=sold.units)
        self.observer.call(
            Finished(
                op,
                kind,
                f"{op}: {said or status or ''}",
                (reply.end - reply.start) / 1e6,
                len(answer.body) if answer else 0,
                UnexpectedAnswer(f"{status or ''} {said}".strip()) if kind == INFO else None,
            )
        )

    def _outcome(self, number: int, reply: Reply) -> Outcome:
        if reply.response is None:
            if "ECONNREFUSED" in reply.problem:
                return Refused(CONNECTION_REFUSED)
            return Unknown(reply.problem)
        return within(STEP, "understanding an answer", partial(self._said, number, reply.response))

    def _said(self, number: int, response: Response) -> Outcome:
        outcome = self.shop.outcome(self.sale, self.buyers[number], response)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"{outcome!r} is none of Sold, Refused and Unknown")
        return valid(type(outcome), outcome)


def _by_status(reply: Reply) -> Outcome:
    """Say how a step was answered that is no purchase."""
    status = reply.response.status if reply.response else 0
    if not status or status >= 500:
        return Unknown(reply.problem)
    return Refused(reply.problem) if status >= 400 else Sold("", 0)
