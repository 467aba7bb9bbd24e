"""The buyers of one round: they meet at the cart and at the last step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar, cast

from loadtest.address import RunImpossible
from loadtest.bounded import STEP, Failed, each_within, valid, within
from loadtest.checker import snapshot
from loadtest.finished import Finished, UnexpectedAnswer
from loadtest.history import CONNECTION_REFUSED, INFO, OK, Operation, Recorder
from loadtest.history import FAIL as REFUSED
from loadtest.release import Reply, send, together
from loadtest.report.headline import counted
from loadtest.rush.plan import FEW, Observer, Plan
from loadtest.shop import (
    SOLD_OUT,
    Accepted,
    Added,
    Bill,
    Books,
    Buyer,
    Cancels,
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


ASK_EVERY = 0.2
"""Seconds between two questions what came of a purchase whose order comes later."""

WAVES = 8
"""Moments at which orders are cancelled around their deadline, where the shop expires by itself."""

AROUND = 3.0
"""Seconds over which these moments are spread, from the first deadline on."""

T = TypeVar("T")


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
        problems: steps of single buyers that failed, with how often; these buyers were left out.
        cancelled: the orders that buyers gave back, unless each of their tries was refused.
        refused_back: the orders whose cancellation was refused each time.
        expired: the orders whose time to pay was over.
        hold: how long units are held; None if the shop does not say.
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
    problems: Counter[str] = field(default_factory=Counter)
    cancelled: set[str] = field(default_factory=set)
    refused_back: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    hold: Hold | None = None
    first_answer: float = 0.0
    last_answer: float = 0.0
    _sold: dict[str, Asked] = field(default_factory=dict)
    _open: dict[str, Asked] = field(default_factory=dict)
    _added: Counter[int] = field(default_factory=Counter)
    _reached: dict[int, str] = field(default_factory=dict)
    _turned_away: set[int] = field(default_factory=set)
    _left_out: set[int] = field(default_factory=set)
    _followed: list[tuple[int, str, str, Reply, str]] = field(default_factory=list)
    _voucher: str = ""
    _calls: Iterator[int] = field(default_factory=lambda: count(1))

    def buy(self) -> None:
        """Bring the buyers through both meeting points, until every answer is known."""
        self.last = [Unknown("never asked")] * len(self.buyers)
        if Level.EXPIRY in self.shop.levels:
            ask = partial(cast(Expires, self.shop).hold, self.sale)
            self.hold = within(STEP, "asking how long units are held", lambda: valid(Hold, ask()))
        began = time.monotonic()
        self._meet("add to cart", "cart", self.shop.add_to_cart)
        self._prepare()
        ready = time.monotonic() - began
        if self.hold is not None and not self.hold.orders and ready > self.hold.seconds:
            self.problems[
                f"the buyers were ready after {ready:.1f} s, and their units are held for "
                f"{self.hold.seconds:g} s: take fewer buyers"
            ] += 1
        if self.plan.scene is Level.EXPIRY and self.hold is not None and not self.hold.orders:
            self._let_carts_expire(time.monotonic() + self.hold.seconds)
        if self.plan.scene is Level.VOUCHERS:
            shop = cast(Vouchers, self.shop)
            make = partial(shop.voucher, self.sale, self.plan.units)
            self._voucher = within(STEP, "making a voucher", lambda: valid(str, make()))
            self._meet("redeem", "voucher", partial(shop.redeem, voucher=self._voucher))
        for attempt in range(1, ATTEMPTS + 1):
            asking = [
                number
                for number, each in enumerate(self.last)
                if isinstance(each, Unknown) and number not in self._left_out
            ]
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
        deadline = self._deadline()
        units_of = {**books.orders, **bought.orders}  # what was ordered, cancelled or not
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
                *(self.sale, asked.buyer, asked.key, units),
                state=snapshot.CONFIRMED if order in books.orders else snapshot.RELEASED,
                returned=max(0, units - kept) if order in books.orders else 0,
                deadline=deadline,
            )
            # An answer need not say whether the unit that was added meanwhile is in the order;
            # what the order holds is compared with what was paid for.
            said = asked.units if self.plan.scene is Level.CARTS else units
            about = self.sale, self.sale, asked.buyer, asked.key
            yield snapshot.Order(order, str(number), *about, said, pay_before=deadline)
        yield from self._came_back_from_carts()
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

    def _deadline(self) -> int:
        """When the last order had to be paid, in µs of this machine's clock; 0 if at no time."""
        if self.plan.scene is not Level.EXPIRY or self.hold is None or not self.hold.orders:
            return 0
        since = time.monotonic() - (self.last_answer + self.hold.seconds)
        return round((time.time() - since) * 1e6)

    def _came_back_from_carts(self) -> Iterator[snapshot.Row]:
        """Yield what carts held for a while: others were told meanwhile that nothing was left.

        Whoever was told so at the last step held nothing, unless carts expire.
        """
        carts_expire = self.hold is not None and not self.hold.orders
        bought = {asked.buyer for asked in self._sold.values()}
        for number, units in self._added.items():
            told = self.last[number]
            if f"b{number}" in bought or (told == Refused(SOLD_OUT) and not carts_expire):
                continue
            yield snapshot.Reservation(
                f"cart {number}",
                self.sale,
                f"b{number}",
                f"cart {number}",
                units,
                state=snapshot.RELEASED,
            )

    def item(self, books: Books) -> snapshot.Item:
        """Return what the books say of the stock.

        Units that carts may hold are not counted. Without a figure of its own for what is left, the
        shop says nothing that could disagree.
        """
        sold = sum(books.orders.values())
        back = self.cancelled | self.expired
        promised = sum(each.units for key, each in self._sold.items() if key not in back)
        # A total that has grown is no excuse for more promises than there were units on sale.
        total = books.total if promised <= self.plan.stock else min(books.total, self.plan.stock)
        unaccounted = max(0, total - sold - (books.available or 0))
        total -= min(unaccounted, self._may_hold(books.orders))
        available = total - sold if books.available is None else books.available
        return snapshot.Item(self.sale, total, available, 0, sold, available)

    def _may_hold(self, orders: Mapping[str, int]) -> int:
        """Return how many units the buyers' carts may hold that are in no order.

        Whoever was refused at the last step holds nothing where units are few. Where there are
        plenty, the refusal is about something else, such as the voucher, and the cart stays.
        """
        few = self.plan.scene in FEW
        if self.plan.scene is Level.EXPIRY and self.hold is not None and not self.hold.orders:
            return 0  # the carts have expired
        ordered: Counter[str] = Counter()
        for order, asked in self._sold.items():
            ordered[asked.buyer] += max(orders.get(order, 0), asked.units)
        return sum(
            max(0, self._added[number] - ordered[f"b{number}"])
            for number, outcome in enumerate(self.last)
            if number in self._turned_away
            or not isinstance(outcome, Refused)
            or not (few or outcome.reason == SOLD_OUT)
        )

    def _prepare(self) -> None:
        """Take the buyers to the last step; some are turned away, or fail on the way."""

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

        going = [n for n in range(len(self.buyers)) if n not in self._turned_away | self._left_out]
        self.observer.step(f"taking {counted(len(going), 'buyer')} to the last step")
        declined = self._each("preparing the buyers", going, prepare)
        for call in self._reached.values():
            self.recorder.complete(call, OK)
        for number in self._reached:
            self._added[number] = max(1, self._added[number])
        for number, reason in declined.items():
            if reason is not None:
                self._turn_away(number, reason)

    def _turn_away(self, number: int, reason: str) -> None:
        self._turned_away.add(number)
        self.last[number] = Refused(reason)
        call = self._invoke("order", number, f"b{number}", 1)
        self.recorder.complete(call, REFUSED, code=reason)

    def _each(
        self, step: str, numbers: Sequence[int], work: Callable[[int], T], *, leaves: bool = True
    ) -> dict[int, T]:
        """Do a step for each of these buyers, and return what it returns.

        A buyer whose step fails is reported, and left out unless `leaves` is False.

        Raises:
            RunImpossible: it failed for each of them.
        """
        found: dict[int, T] = {}
        seconds = STEP + EACH * len(numbers)
        failed: Counter[str] = Counter()
        results = each_within(seconds, numbers, work, each=STEP)
        for number, result in zip(numbers, results, strict=True):
            if not isinstance(result, Failed):
                found[number] = result
                continue
            failed[f"{step} {result.reason}"] += 1
            if leaves:
                self._left_out.add(number)
                self.last[number] = Unknown(f"{step} {result.reason}")
        if failed and not found:
            raise RunImpossible(failed.most_common(1)[0][0])
        self.problems += failed
        return found

    def _built(
        self, step: str, kind: type[T], numbers: Sequence[int], build: Callable[[int], Any]
    ) -> dict[int, T]:
        """Let the adapter build a request of each of these buyers."""

        def checked(number: int) -> T:
            [built] = valid(list[kind], [build(number)])  # type: ignore[valid-type]
            return cast(T, built)

        return self._each(step, numbers, checked)

    def _meet(self, step: str, op: str, request: Callable[[str, Buyer], Request | None]) -> None:
        """Send a request of every buyer at one moment, and let the adapter take in the answers."""
        going = [n for n in range(len(self.buyers)) if n not in self._turned_away | self._left_out]
        built: dict[int, Request | None] = self._built(
            step,
            cast(Any, Request | None),
            going,
            lambda n: request(self.sale, self.buyers[n]),
        )
        calls = [(n, each) for n, each in built.items() if each is not None]
        if not calls:
            return
        self.observer.step(f"{step}: {len(calls):,} requests at one moment")
        answers: dict[int, Reply] = {}
        outcomes = self._send(op, calls, answers=answers)
        if op == "cart":
            self._added.update(
                number
                for (number, _), outcome in zip(calls, outcomes, strict=True)
                if not isinstance(outcome, Refused)
            )
            if isinstance(self.shop, Added):
                self._take_in({number: answers[n] for n, (number, _) in enumerate(calls)})

    def _take_in(self, replies: Mapping[int, Reply]) -> None:
        """Give the adapter the answers to "add to cart"; some turn their buyer away."""

        def take_in(number: int) -> str | None:
            response = replies[number].response
            if response is None:
                raise RunImpossible(replies[number].problem)
            try:
                cast(Added, self.shop).added(self.sale, self.buyers[number], response)
            except Declined as refusal:
                return str(refusal)
            return None

        step = "taking in the answer to “add to cart”"
        for number, reason in self._each(step, list(replies), take_in).items():
            if reason is not None:
                del self._added[number]
                self._turn_away(number, reason)

    def _buy(self, asking: Sequence[int], attempt: int) -> None:
        again = f", attempt {attempt} of those without an answer" if attempt > 1 else ""
        self.observer.step(f"the last step: {counted(len(asking), 'buyer')} at one moment{again}")
        knows = Level.REPEATS in self.shop.levels
        buy, sale, buyers = self.shop.buy, self.sale, self.buyers
        step = "the last step's request"
        built = self._built(step, Request, asking, lambda n: buy(sale, buyers[n]))
        more: dict[int, Request] = {}
        if self.plan.scene is Level.CARTS:
            # Each purchase has a companion that adds to its cart.
            add, step = cast(Carts, self.shop).add_more, "adding to the cart"
            more = self._built(step, Request, list(built), lambda n: add(sale, buyers[n]))
        clicks = [n for n in built for _ in range(2 if knows and n % DOUBLE == 0 else 1)]
        keys = [f"b{n}" if knows else f"b{n}.{attempt}" for n in clicks]
        names = [
            self._invoke("order", n, key, attempt) for n, key in zip(clicks, keys, strict=True)
        ]
        requests = [built[n] for n in clicks]
        each = 1
        if more:
            requests = [one for n in clicks for one in (built[n], more.get(n, built[n]))]
            each = 2

        def ended(index: int, reply: Reply) -> None:
            number, companion = divmod(index, each)
            if not companion:
                self._hear(clicks[number], keys[number], names[number], reply)
            elif not isinstance(_by_status(reply), Refused):
                self._added[clicks[number]] += 1

        self.first_answer = self.first_answer or time.monotonic()
        self._together([*requests, *self._expiry_of_carts()], ended_first(len(requests), ended))
        self.last_answer = time.monotonic()
        self._follow()

    def _follow(self) -> None:
        """Ask what came of the purchases whose orders come later than their answers."""
        followed, self._followed = self._followed, []
        if not followed:
            return
        if not isinstance(self.shop, Later):
            raise RunImpossible("`outcome` returns Accepted, and the adapter has no `follow`")
        self.observer.step(f"asking what came of {counted(len(followed), 'accepted purchase')}")
        shop, said = self.shop, {}

        def ask(request: Request) -> Response:
            return send(self.plan.address, request, timeout=STEP)

        def follow(index: int) -> None:
            number, _, _, _, ticket = followed[index]
            give_up = time.monotonic() + STEP / 2
            outcome: Outcome | Accepted = Accepted(ticket)
            while isinstance(outcome, Accepted) and time.monotonic() < give_up:
                time.sleep(ASK_EVERY)
                outcome = shop.follow(self.sale, self.buyers[number], outcome.ticket, ask)
                if not isinstance(outcome, Outcome | Accepted):
                    raise TypeError(f"{outcome!r} is none of Sold, Refused, Unknown and Accepted")
            said[index] = outcome

        self._each("asking what came of a purchase", range(len(followed)), follow, leaves=False)
        for index, (number, key, call, reply, _) in enumerate(followed):
            outcome = said.get(index)
            if not isinstance(outcome, Sold | Refused | Unknown):
                outcome = Unknown("accepted, and nothing more")
            self._take(number, key, call, reply, outcome)

    def cancel(self) -> None:
        """Cancel every order twice at one moment; what it held must come back once."""
        sold = {n: each.order for n, each in enumerate(self.last) if isinstance(each, Sold)}
        self.observer.step(f"cancelling {len(sold):,} orders, each twice at one moment")
        self._give_back(sold, times=2)
        if sold and not self.cancelled:
            raise RunImpossible("the shop cancelled none of its orders")

    def _give_back(
        self, sold: Mapping[int, str], *, times: int, with_them: Sequence[Request] = ()
    ) -> None:
        """Cancel the orders of these buyers, each so many times, at one moment with these."""
        cancel = cast(Cancels, self.shop).cancel
        built = self._built(
            "the request to cancel",
            Request,
            list(sold),
            lambda n: cancel(self.sale, self.buyers[n], sold[n]),
        )
        calls = [(n, built[n]) for n in built for _ in range(times)]
        orders = [sold[n] for n, _ in calls]
        outcomes = self._send("cancel", calls, orders, with_them=with_them)
        for order, outcome in zip(orders, outcomes, strict=True):
            if not isinstance(outcome, Refused):
                self.cancelled.add(order)
        self.refused_back = {*self.refused_back, *orders} - self.cancelled

    def expire(self) -> None:
        """Let the time to pay run out, and cancel half of the orders at just that moment.

        What an order held must come back once, whoever is first. Where the shop expires by itself,
        the cancellations are spread over the seconds after the first deadline.
        """
        assert self.hold is not None
        sold = {n: each.order for n, each in enumerate(self.last) if isinstance(each, Sold)}
        self.expired = set(sold.values()) | self.expired
        half = dict(list(sold.items())[::2]) if Level.CANCEL in self.shop.levels else {}
        last = self.last_answer + self.hold.seconds
        requests = self._expire_requests()
        if requests:
            self._wait_until(last)
            self.observer.step(f"cancelling {len(half):,} orders while all of them expire")
            self._give_back(half, times=1, with_them=requests)
            return
        first = self.first_answer + self.hold.seconds
        for wave in range(WAVES):
            self._wait_until(first + (max(last - first, 0.0) + AROUND) * wave / WAVES)
            part = dict(list(half.items())[wave::WAVES])
            self.observer.step(f"cancelling {len(part):,} orders while all of them expire")
            self._give_back(part, times=1)

    def expire_again(self) -> None:
        """Let the shop end what was not out of time when it was asked first."""
        if requests := self._expire_requests():
            self._together(requests, lambda _number, _reply: None)

    def _wait_until(self, moment: float) -> None:
        seconds = moment - time.monotonic()
        if seconds > 0:
            self.observer.step(f"waiting {seconds:.0f} s until units are no longer held")
            time.sleep(seconds)

    def _let_carts_expire(self, moment: float) -> None:
        """Wait until carts are no longer held, and let every second buyer not come back.

        The others take the last step while their cart expires: they get their order, or the unit
        comes back, not both.
        """
        self._wait_until(moment)
        for number in range(1, len(self.buyers), 2):
            if number not in self._turned_away | self._left_out:
                self._left_out.add(number)
                self.last[number] = Refused("did not come back")

    def _expiry_of_carts(self) -> list[Request]:
        if self.plan.scene is Level.EXPIRY and self.hold is not None and not self.hold.orders:
            return self._expire_requests()
        return []

    def _expire_requests(self) -> list[Request]:
        """The owner's request that ends what is out of time, twice; empty if there is none."""
        build = partial(cast(Expires, self.shop).expire, self.sale)
        step = "the request to expire"
        both = within(STEP, step, lambda: valid(list[Request | None], [build(), build()]))
        return [each for each in both if each is not None]

    def _send(
        self,
        op: str,
        calls: Sequence[tuple[int, Request]],
        orders: Sequence[str] = (),
        *,
        answers: dict[int, Reply] | None = None,
        with_them: Sequence[Request] = (),
    ) -> list[Outcome]:
        """Send buyers' requests that are no purchases at one moment, and return what came of them.

        Args:
            op: what they do.
            calls: the buyers' numbers and their requests.
            orders: those that the requests are about, one each.
            answers: takes the reply to each call, by its place.
            with_them: further requests of the same moment, by nobody.
        """
        about = orders or [""] * len(calls)
        names = [
            self._invoke(op, number, "", 1, order)
            for (number, _), order in zip(calls, about, strict=True)
        ]
        outcomes: list[Outcome] = [Unknown("no answer")] * len(calls)

        def ended(index: int, reply: Reply) -> None:
            outcomes[index] = _by_status(reply)
            if answers is not None:
                answers[index] = reply
            self._complete(names[index], op, reply, outcomes[index], about[index])

        requests = [request for _, request in calls]
        self._together([*requests, *with_them], ended_first(len(requests), ended))
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
        outcome = self._outcome(number, reply)
        if isinstance(outcome, Accepted):
            self._followed.append((number, key, call, reply, outcome.ticket))
        else:
            self._take(number, key, call, reply, outcome)

    def _take(self, number: int, key: str, call: str, reply: Reply, outcome: Outcome) -> None:
        """Keep what came of a purchase."""
        asked = Asked(key, f"b{number}")
        self._complete(call, "order", reply, outcome)
        if isinstance(outcome, Unknown):
            self.unknown[_described(reply, outcome)] += 1
        if isinstance(outcome, Sold):
            # A repeated answer need not say the units again.
            first = self._sold.setdefault(outcome.order, asked)
            units = max(first.units, outcome.units)
            self._sold[outcome.order] = first._replace(units=units)
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

    def _outcome(self, number: int, reply: Reply) -> Outcome | Accepted:
        """Let the adapter understand an answer; if it cannot, the outcome is unknown."""
        if reply.response is None:
            if "ECONNREFUSED" in reply.problem:
                return Refused(CONNECTION_REFUSED)
            return Unknown(reply.problem)
        step, response = "understanding an answer", reply.response
        [said] = each_within(STEP, [number], lambda n: self._said(n, response), each=STEP)
        if not isinstance(said, Failed):
            return said
        if "took longer" in said.reason:
            raise RunImpossible(f"{step} {said.reason}")
        self.problems[f"{step} {said.reason}"] += 1
        return Unknown(f"{step} {said.reason}")

    def _said(self, number: int, response: Response) -> Outcome | Accepted:
        outcome = self.shop.outcome(self.sale, self.buyers[number], response)
        if not isinstance(outcome, Outcome | Accepted):
            raise TypeError(f"{outcome!r} is none of Sold, Refused, Unknown and Accepted")
        return valid(type(outcome), outcome)


def ended_first(number: int, ended: Callable[[int, Reply], None]) -> Callable[[int, Reply], None]:
    """Tell of the first so many replies only."""

    def tell(index: int, reply: Reply) -> None:
        if index < number:
            ended(index, reply)

    return tell


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
