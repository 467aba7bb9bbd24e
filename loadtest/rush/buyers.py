"""The buyers of one round: they meet at the cart and at the last step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
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
    """Who asked for an order: the key of the purchase, the buyer, and the units answered."""

    key: str
    buyer: str
    units: int = 1


@dataclass(slots=True)
class Buyers:
    """The buyers of one round, from their carts to the books at rest.

    Attributes:
        last: each buyer's last outcome.
        repeats: how often buyers asked again.
        unknown: the answers to the last step that say neither, with how often they came.
        cancelled: the orders that buyers gave back, unless each of their tries was refused.
    """

    shop: Shop
    plan: Plan
    sale: str
    buyers: Sequence[Buyer]
    recorder: Recorder
    observer: Observer
    last: list[Outcome] = field(default_factory=list)
    repeats: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    cancelled: set[str] = field(default_factory=set)
    _sold: dict[str, Asked] = field(default_factory=dict)
    _open: dict[str, Asked] = field(default_factory=dict)
    _added: Counter[int] = field(default_factory=Counter)
    _reached: dict[int, str] = field(default_factory=dict)
    _turned_away: set[int] = field(default_factory=set)
    _voucher: str = ""
    _calls: Iterator[int] = field(default_factory=lambda: count(1))

    def buy(self) -> None:
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

    def rows(self, bought: Books, books: Books) -> Iterator[snapshot.Row]:
        """Yield the shop's own books, with who asked for each order, as the checker reads them.

        Args:
            bought: the books when every buyer had been answered.
            books: the books at the end, when orders may have been cancelled.

        Raises:
            RunImpossible: the books use other ids than the answers.
        """
        if self._sold and not self._sold.keys() & bought.orders.keys():
            raise RunImpossible(
                f"none of the {len(self._sold)} orders that buyers were answered with is in the "
                f"books, which name {len(bought.orders)}: does the adapter read the same ids?"
            )
        yield snapshot.Sale(self.sale, self.sale, 0)
        yield self.item(books)
        unanswered = iter(self._open.values())
        units_of = {**books.orders, **bought.orders}  # what was ordered, cancelled or not
        for number, (order, units) in enumerate(units_of.items()):
            if order not in books.orders and order not in self.cancelled:
                continue  # gone, although nobody gave it back
            # An order that no answer names may be that of any purchase without an answer.
            asked = self._sold.get(order) or next(unanswered, None)
            asked = asked or Asked(f"not asked for {number}", "nobody", units)
            kept = books.orders.get(order, 0)
            yield snapshot.Reservation(
                str(number),
                *(self.sale, asked.buyer, asked.key, units),
                state=snapshot.CONFIRMED if order in books.orders else snapshot.RELEASED,
                returned=max(0, units - kept) if order in books.orders else 0,
            )
            # An answer need not say whether the unit that was added meanwhile is in the order;
            # what the order holds is compared with what was paid for.
            said = asked.units if self.plan.scene is Level.CARTS else units
            about = self.sale, self.sale, asked.buyer, asked.key
            yield snapshot.Order(order, str(number), *about, said)
        if self.plan.scene is Level.VOUCHERS:
            read = partial(cast(Vouchers, self.shop).redeemed, self.sale, self._voucher)
            uses = within(STEP, "reading the voucher's uses", lambda: valid(int, read()))
            yield snapshot.Voucher(self._voucher, self.plan.units, uses)
        if self.plan.scene is Level.CARTS:
            read_bills = partial(cast(Carts, self.shop).bills, self.sale)
            step = "reading the bills"
            bills = within(STEP, step, lambda: valid(dict[str, Bill], read_bills()))
            for order, bill in bills.items():
                yield snapshot.Bill(order, bill.paid, bill.worth)

    def item(self, books: Books) -> snapshot.Item:
        """Return what the books say of the stock.

        Units that carts may hold are not counted. Without a figure of its own for what is left, the
        shop says nothing that could disagree.
        """
        sold = sum(books.orders.values())
        promised = sum(each.units for key, each in self._sold.items() if key not in self.cancelled)
        # A total that has grown is no excuse for more promises than there were units on sale.
        total = books.total if promised <= self.plan.stock else min(books.total, self.plan.stock)
        unaccounted = max(0, total - sold - (books.available or 0))
        total -= min(unaccounted, self._may_hold(books.orders))
        available = total - sold if books.available is None else books.available
        return snapshot.Item(self.sale, total, available, 0, sold, available)

    def _may_hold(self, orders: Mapping[str, int]) -> int:
        """Return how many units the buyers' carts may hold that are in no order.

        Whoever was refused at the last step holds nothing.
        """
        ordered: Counter[str] = Counter()
        for order, asked in self._sold.items():
            ordered[asked.buyer] += max(orders.get(order, 0), asked.units)
        return sum(
            max(0, self._added[number] - ordered[f"b{number}"])
            for number, outcome in enumerate(self.last)
            if not isinstance(outcome, Refused) or number in self._turned_away
        )

    def _prepare(self) -> None:
        def prepare(number: int) -> str | None:
            def ask(request: Request) -> Response:
                if number not in self._reached:
                    self._reached[number] = self._invoke("prepare", number, "", 1)
                return send(self.plan.address, request, timeout=STEP)

            try:
                self.shop.prepare(self.sale, self.buyers[number], ask)
            except Declined as refusal:
                return str(refusal)
            return None

        self.observer.step(f"taking {counted(len(self.buyers), 'buyer')} to the last step")
        seconds, everybody = STEP + EACH * len(self.buyers), range(len(self.buyers))
        declined = each_within(seconds, "preparing the buyers", everybody, prepare)
        for call in self._reached.values():
            self.recorder.complete(call, OK)
        for number in self._reached:
            self._added[number] = max(1, self._added[number])
        for number, reason in enumerate(declined):
            if reason is not None:
                self._turned_away.add(number)
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
            outcomes = self._send(op, calls)
            if op == "cart":
                self._added.update(
                    number
                    for (number, _), outcome in zip(calls, outcomes, strict=True)
                    if not isinstance(outcome, Refused)
                )

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
            elif not isinstance(_by_status(reply), Refused):
                self._added[clicks[number]] += 1

        self._together(requests, ended)

    def _requests(
        self, step: str, request: Callable[[str, Buyer], Request], numbers: Sequence[int]
    ) -> list[Request]:
        return within(
            *(STEP, step),
            lambda: valid(list[Request], [request(self.sale, self.buyers[n]) for n in numbers]),
        )

    def cancel(self) -> None:
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
        outcomes = self._send("cancel", calls, [order for _, order in twice])
        if twice and not any(isinstance(each, Sold) for each in outcomes):
            raise RunImpossible("the shop cancelled none of its orders")
        for (_, order), outcome in zip(twice, outcomes, strict=True):
            if not isinstance(outcome, Refused):
                self.cancelled.add(order)

    def _send(
        self, op: str, calls: Sequence[tuple[int, Request]], orders: Sequence[str] = ()
    ) -> list[Outcome]:
        """Send buyers' requests that are no purchases at one moment, and return what came of them.

        `orders` are those that the requests are about, one each.
        """
        about = orders or [""] * len(calls)
        names = [
            self._invoke(op, number, "", 1, order)
            for (number, _), order in zip(calls, about, strict=True)
        ]
        outcomes: list[Outcome] = [Unknown("no answer")] * len(calls)

        def ended(index: int, reply: Reply) -> None:
            outcomes[index] = _by_status(reply)
            self._complete(names[index], op, reply, outcomes[index], about[index])

        self._together([request for _, request in calls], ended)
        return outcomes

    def _together(self, requests: Sequence[Request], ended: Callable[[int, Reply], None]) -> None:
        address, release = self.plan.address, self.plan.release
        together(address, requests, release=release, timeout=ANSWERS, ended=ended)

    def _invoke(self, op: str, number: int, key: str, attempt: int, order: str = "") -> str:
        call, buyer = f"b{number}#{next(self._calls)}", f"b{number}"
        about = key, attempt, self.sale, self.sale, 1 if op == "order" else 0, order or None
        self.recorder.invoke(Operation(0, call, op, buyer, buyer, *about))
        return call

    def _hear(self, number: int, key: str, call: str, reply: Reply) -> None:
        """Take in the answer to a last step."""
        outcome, asked = self._outcome(number, reply), Asked(key, f"b{number}")
        self._complete(call, "order", reply, outcome)
        if isinstance(outcome, Unknown):
            self.unknown[_described(reply, outcome)] += 1
        if isinstance(outcome, Sold):
            self._sold.setdefault(outcome.order, asked._replace(units=outcome.units))
            self._open.pop(key, None)
        elif isinstance(outcome, Unknown) and key not in {each.key for each in self._sold.values()}:
            self._open[key] = asked
        if not isinstance(self.last[number], Sold):
            self.last[number] = outcome

    def _complete(
        self, call: str, op: str, reply: Reply, outcome: Outcome, order: str = ""
    ) -> None:
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
        record(order=sold.order or order or None, quantity=sold.units)
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


def _described(reply: Reply, outcome: Unknown) -> str:
    """Say what an answer was: its status, where it leads, and the adapter's word for it."""
    answer = reply.response
    if answer is None:
        return reply.problem
    told = f"status {answer.status}"
    if target := answer.headers.get("location"):
        told += f", redirect to {target}"
    return told if outcome.detail in ("", told) else f"{told} ({outcome.detail})"


def _by_status(reply: Reply) -> Outcome:
    """Say how a step was answered that is no purchase."""
    status = reply.response.status if reply.response else 0
    if not status or status >= 500:
        return Unknown(reply.problem)
    return Refused(reply.problem) if status >= 400 else Sold("", 0)
