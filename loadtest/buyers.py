"""The buyers of one sale of a shop that has an adapter: what they asked, and were answered.

They meet at one moment (`rush/buyers.py`), or come at their own pace (`mix/buyers.py`). Each of
their calls is recorded here, and at the end the shop's own books are put next to who asked for
each order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple, Protocol, cast

from loadtest.adapter_steps import STEP, valid, within
from loadtest.address import RunImpossible
from loadtest.calls import Finished, Report, UnexpectedAnswer
from loadtest.checker import snapshot
from loadtest.history import CONNECTION_REFUSED, INFO, OK, Operation, Recorder
from loadtest.history import FAIL as REFUSED
from loadtest.release import Reply
from loadtest.shop import (
    SOLD_OUT,
    Accepted,
    Added,
    Bill,
    Books,
    Buyer,
    Carts,
    Declined,
    Expires,
    Hold,
    Later,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Send,
    Shop,
    Sold,
    Unknown,
    Vouchers,
)

ATTEMPTS = 4
"""How often a buyer presses the button while the answers are unknown, as in a browser."""

PAUSE = 0.3
"""Seconds before a buyer asks again."""

ASK_EVERY = 0.2
"""Seconds between two questions what came of a purchase whose order comes later."""


class Offer(Protocol):
    """What the buyers need to know of the sale, as its plan says it."""

    @property
    def stock(self) -> int:
        """Its units."""

    @property
    def uses(self) -> int:
        """How many orders may use its voucher."""

    @property
    def tries(self) -> frozenset[Level]:
        """The levels that its buyers put to the test."""


class Asked(NamedTuple):
    """Who asked for an order: the key of the purchase, the buyer, and the units answered.

    `since` is when they first asked for it, in seconds of the monotonic clock.
    """

    key: str
    buyer: str
    units: int = 1
    since: float = 0.0


@dataclass(slots=True)
class Buyers:
    """The buyers of one sale, by their numbers, from their carts to the books at rest.

    Attributes:
        report: called with every call that is over.
        last: each buyer's last outcome.
        repeats: how often buyers asked again.
        unknown: the answers to the last step that say neither, with how often they came.
        problems: steps of single buyers that failed, with how often; these buyers were left out.
        cancelled: the orders that buyers gave back, unless each of their tries was refused.
        refused_back: the orders whose cancellation was refused each time.
        expired: the orders whose time to pay was over.
        hold: how long units are held; None if the shop does not say.
        first_answer, last_answer: to a last step, in seconds of the monotonic clock.
        voucher: of the sale; empty if it has none.
        used: how many orders use it, at the end.
        in_carts: units that each buyer may have had in the cart, or been given at the checkout.
        adding: buyers who added a unit while they took the last step.
        about_more: buyers whose last step may be refused for something else than the stock.
        turned_away: buyers whom the shop did not let come to the last step.
        left_out: buyers who did not go on.
        dues: when buyers of an open loop meant to come, in ns of the monotonic clock; the first
            call of each takes it.
    """

    shop: Shop
    plan: Offer
    sale: str
    buyers: list[Buyer]
    recorder: Recorder
    report: Report
    last: list[Outcome] = field(default_factory=list)
    repeats: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    cancelled: set[str] = field(default_factory=set)
    refused_back: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    hold: Hold | None = None
    first_answer: float = 0.0
    last_answer: float = 0.0
    voucher: str = ""
    used: int = 0
    in_carts: Counter[int] = field(default_factory=Counter)
    adding: set[int] = field(default_factory=set)
    about_more: set[int] = field(default_factory=set)
    turned_away: set[int] = field(default_factory=set)
    left_out: set[int] = field(default_factory=set)
    dues: dict[int, int] = field(default_factory=dict)
    _asked: dict[str, Asked] = field(default_factory=dict)
    _doubts: Counter[str] = field(default_factory=Counter)
    _sold: dict[str, Asked] = field(default_factory=dict)
    _reached: dict[int, str] = field(default_factory=dict)
    _calls: Iterator[int] = field(default_factory=lambda: count(1))

    # --- the books ----------------------------------------------------------------------------

    def rows(self, bought: Books, books: Books) -> Iterator[snapshot.Row]:
        """Yield the shop's own books, with who asked for each order, as the checker reads them.

        Args:
            bought: the books when every buyer had been answered.
            books: the books at the end, when orders may have been cancelled.

        Raises:
            RunImpossible: the books use other ids than the answers.
        """
        check_ids(self._sold.keys(), bought)
        yield snapshot.Sale(self.sale, self.sale, 0)
        yield self.item(books)
        unanswered = iter(self._unanswered())
        deadline = self._deadline()
        units_of = {**books.orders, **bought.orders}  # what was ordered, cancelled or not
        adding = {f"b{number}" for number in self.adding}
        for number, (order, units) in enumerate(units_of.items()):
            gave_back = order in self.cancelled or order in self.expired
            if order not in books.orders and not gave_back:
                continue  # gone, although nobody gave it back
            # An order that no answer names may be that of any purchase without an answer.
            asked = self._sold.get(order) or next(unanswered, None)
            asked = asked or Asked(f"not asked for {number}", "nobody", units)
            kept = books.orders.get(order, 0)
            yield snapshot.Reservation(
                str(number),
                self.sale,
                asked.buyer,
                asked.key,
                units,
                state=snapshot.CONFIRMED if order in books.orders else snapshot.RELEASED,
                returned=max(0, units - kept) if order in books.orders else 0,
                deadline=deadline,
            )
            # An answer need not say whether the unit that was added meanwhile is in the order;
            # what the order holds is compared with what was paid for.
            said = asked.units if asked.buyer in adding else units
            about = self.sale, self.sale, asked.buyer, asked.key
            yield snapshot.Order(order, str(number), *about, said, pay_before=deadline)
        yield from self._came_back_from_carts()
        if self.voucher:
            read = partial(cast(Vouchers, self.shop).redeemed, self.sale, self.voucher)
            self.used = within(STEP, "reading the voucher's uses", lambda: valid(int, read()))
            yield snapshot.Voucher(self.voucher, self.plan.uses, self.used)
        if Level.CARTS in self.plan.tries:
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
        back = self.cancelled | self.expired
        promised = sum(asked.units for order, asked in self._sold.items() if order not in back)
        # A total that has grown is no excuse for more promises than there were units on sale.
        total = books.total if promised <= self.plan.stock else min(books.total, self.plan.stock)
        unaccounted = max(0, total - sold - (books.available or 0))
        total -= min(unaccounted, self._may_hold(books.orders))
        available = total - sold if books.available is None else books.available
        return snapshot.Item(self.sale, total, available, 0, sold, available)

    @property
    def holds_orders(self) -> bool:
        """Whether orders that are not paid hold units, for a time."""
        return self.hold is not None and self.hold.orders

    @property
    def carts_expire(self) -> bool:
        """Whether carts hold units, for a time."""
        return self.hold is not None and not self.hold.orders

    def _unanswered(self) -> list[Asked]:
        """Return who asked for an order and was neither sold one nor refused each time."""
        sold = {asked.key for asked in self._sold.values()}
        doubts = self._doubts
        return [asked for key, asked in self._asked.items() if doubts[key] > 0 and key not in sold]

    def _deadline(self) -> int:
        """When the last order had to be paid, in µs of this machine's clock; 0 if at no time."""
        if Level.EXPIRY not in self.plan.tries or self.hold is None or not self.holds_orders:
            return 0
        since = time.monotonic() - (self.last_answer + self.hold.seconds)
        return round((time.time() - since) * 1e6)

    def _came_back_from_carts(self) -> Iterator[snapshot.Row]:
        """Yield what carts held for a while: others were told meanwhile that nothing was left.

        A buyer who was told so at the last step held nothing, unless carts expire.
        """
        bought = {asked.buyer for asked in self._sold.values()}
        for number, units in self.in_carts.items():
            answer = self.last[number]
            if f"b{number}" in bought or (answer == Refused(SOLD_OUT) and not self.carts_expire):
                continue
            yield snapshot.Reservation(
                f"cart {number}",
                self.sale,
                f"b{number}",
                f"cart {number}",
                units,
                state=snapshot.RELEASED,
            )

    def _may_hold(self, orders: Mapping[str, int]) -> int:
        """Return how many units the buyers' carts may hold that are in no order.

        A buyer who was refused at the last step holds nothing, unless the refusal may be about
        something else than the stock, such as the voucher: the cart stays then.
        """
        if Level.EXPIRY in self.plan.tries and self.carts_expire:
            return 0  # the carts have expired
        ordered: Counter[str] = Counter()
        for order, asked in self._sold.items():
            ordered[asked.buyer] += max(orders.get(order, 0), asked.units)
        return sum(
            max(0, units - ordered[f"b{number}"])
            for number, units in self.in_carts.items()
            if number in self.turned_away
            or not isinstance(self.last[number], Refused)
            or (number in self.about_more and self.last[number] != Refused(SOLD_OUT))
        )

    # --- the steps of one buyer ---------------------------------------------------------------

    def take_in_cart(self, number: int, reply: Reply) -> str | None:
        """Give the adapter the answer to "add to cart"; why it turns the buyer away, if it does."""
        if reply.response is None:
            raise RunImpossible(reply.problem)
        try:
            cast(Added, self.shop).added(self.sale, self.buyers[number], reply.response)
        except Declined as refusal:
            return str(refusal)
        return None

    def prepare_one(self, number: int, send: Send) -> str | None:
        """Take a buyer to the last step; why the shop turns them away, if it does.

        The first request begins a call of the history, which `end_preparation` ends.
        """

        def ask(request: Request) -> Response:
            if number not in self._reached:
                self._reached[number] = self.invoke("prepare", number, "", 1)
            return send(request)

        try:
            self.shop.prepare(self.sale, self.buyers[number], ask)
        except Declined as refusal:
            return str(refusal)
        return None

    def end_preparation(self, number: int) -> bool:
        """Record that a buyer has come to the last step; whether a request was needed for it."""
        call = self._reached.get(number)
        if call is None:
            return False
        self.recorder.complete(call, OK)
        self.in_carts[number] = max(1, self.in_carts[number])
        return True

    def follow_one(self, number: int, ticket: str, send: Send) -> Outcome:
        """Ask what came of a purchase whose order comes later than its answer.

        Raises:
            TypeError: the adapter says something else.
        """
        shop = self.shop
        if not isinstance(shop, Later):
            raise RunImpossible(NO_FOLLOW)
        give_up = time.monotonic() + STEP / 2
        outcome: Outcome | Accepted = Accepted(ticket)
        while isinstance(outcome, Accepted) and time.monotonic() < give_up:
            time.sleep(ASK_EVERY)
            outcome = shop.follow(self.sale, self.buyers[number], outcome.ticket, send)
            if not isinstance(outcome, Outcome | Accepted):
                raise TypeError(f"{outcome!r} is none of Sold, Refused, Unknown and Accepted")
        return outcome if not isinstance(outcome, Accepted) else Unknown(ONLY_ACCEPTED)

    def expire_requests(self) -> list[Request]:
        """The owner's request that ends what is out of time, twice; empty if there is none."""
        build = partial(cast(Expires, self.shop).expire, self.sale)
        step = "the request to expire"
        both = within(STEP, step, lambda: valid(list[Request | None], [build(), build()]))
        return [request for request in both if request is not None]

    def turn_away(self, number: int, reason: str) -> None:
        """Record that the shop lets this buyer not come to the last step."""
        self.turned_away.add(number)
        self.last[number] = Refused(reason)
        call = self.invoke("order", number, f"b{number}", 1)
        self.recorder.complete(call, REFUSED, code=reason)

    # --- what they ask and are answered -------------------------------------------------------

    def invoke(
        self, op: str, number: int, key: str, attempt: int, order: str = "", client: str = ""
    ) -> str:
        """Record that a request is about to be sent; return the name of the call.

        Args:
            op: what it does.
            number: of the buyer.
            key: of the purchase; empty if it is none.
            attempt: how often the key is used by now.
            order: that it is about.
            client: who asks in the buyer's name; the buyer, if empty.
        """
        call, buyer = f"b{number}#{next(self._calls)}", f"b{number}"
        about = key, attempt, self.sale, self.sale, 1 if op == "order" else 0, order or None
        due = self.dues.pop(number, None)
        self.recorder.invoke(Operation(0, call, op, client or buyer, buyer, *about, due=due))
        return call

    def ask(self, number: int, key: str, attempt: int, client: str = "") -> str:
        """Record that the last step is about to be taken; return the name of the call."""
        self._asked.setdefault(key, Asked(key, f"b{number}", since=time.monotonic()))
        self._doubts[key] += 1
        return self.invoke("order", number, key, attempt, client=client)

    def take(self, number: int, key: str, call: str, reply: Reply, outcome: Outcome) -> None:
        """Keep what came of a purchase."""
        self.complete(call, "order", reply, outcome)
        if isinstance(outcome, Unknown):
            self.unknown[_described(reply, outcome)] += 1
        elif isinstance(outcome, Refused):
            self._doubts[key] -= 1
        else:
            # A repeated answer need not say the units again.
            first = self._sold.setdefault(outcome.order, self._asked[key])
            units = max(first.units, outcome.units)
            self._sold[outcome.order] = first._replace(units=units)
        if not isinstance(self.last[number], Sold):
            self.last[number] = outcome

    def complete(self, call: str, op: str, reply: Reply, outcome: Outcome, order: str = "") -> None:
        """Record an answer, and report it."""
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
        self.report(
            Finished(
                op,
                kind,
                f"{op}: {said or status or ''}",
                (reply.end - reply.start) / 1e6,
                len(answer.body) if answer else 0,
                UnexpectedAnswer(f"{status or ''} {said}".strip()) if kind == INFO else None,
            )
        )

    def understand(self, number: int, response: Response) -> Outcome | Accepted:
        """Let the adapter understand the answer to a last step; it may raise anything."""
        outcome = self.shop.outcome(self.sale, self.buyers[number], response)
        if not isinstance(outcome, Outcome | Accepted):
            raise TypeError(f"{outcome!r} is none of Sold, Refused, Unknown and Accepted")
        return valid(type(outcome), outcome)


def check_ids(answered: Collection[str], books: Books) -> None:
    """Compare the ids of orders in answers and in the books.

    Args:
        answered: the orders that buyers were answered with, and that must be in the books.
        books: of the shop.

    Raises:
        RunImpossible: none of them is.
    """
    if answered and not set(answered) & books.orders.keys():
        raise RunImpossible(
            f"none of the {len(answered)} orders that buyers were answered with is in the "
            f"books, which name {len(books.orders)}: does the adapter read the same ids?"
        )


def remarks_on(unknown: Counter[str], problems: Counter[str]) -> Iterator[str]:
    """Say which answers told nothing, and which steps left buyers out, with how often."""
    for what, times in unknown.items():
        yield f"Answers that say neither: {times} × {what}."
    for what, times in problems.items():
        yield f"Left out: {times} × {what}."


NO_FOLLOW = "`outcome` returns Accepted, and the adapter has no `follow`"
ONLY_ACCEPTED = "accepted, and nothing more"


def unanswered(reply: Reply) -> Outcome:
    """Say what a purchase came to that has no answer."""
    if reply.problem == CONNECTION_REFUSED or "ECONNREFUSED" in reply.problem:
        return Refused(CONNECTION_REFUSED)
    return Unknown(reply.problem)


def by_status(reply: Reply) -> Outcome:
    """Say how a step was answered that is no purchase."""
    status = reply.response.status if reply.response else 0
    if not status or status >= 500:
        return Unknown(reply.problem)
    return Refused(reply.problem) if status >= 400 else Sold("", 0)


def _described(reply: Reply, outcome: Unknown) -> str:
    """Say what an answer was: its status, where it leads, and the adapter's word for it."""
    answer = reply.response
    if answer is None:
        return reply.problem
    text = f"status {answer.status}"
    if target := answer.headers.get("location"):
        text += f", redirect to {target}"
    return text if outcome.detail in ("", text) else f"{text} ({outcome.detail})"
