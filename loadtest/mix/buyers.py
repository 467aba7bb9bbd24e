"""The buyers of a mix: each takes the steps to an order at their own pace."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar, cast

from loadtest.adapter_steps import valid
from loadtest.address import RunImpossible
from loadtest.buyers import ATTEMPTS, PAUSE, Buyers, by_status, check_ids, unanswered
from loadtest.calls import Finished
from loadtest.checker import snapshot
from loadtest.client import Connection
from loadtest.history import AGAIN, OK
from loadtest.release import Reply
from loadtest.shop import (
    Accepted,
    Added,
    Books,
    Buyer,
    Cancels,
    Carts,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Sold,
    Unknown,
    Vouchers,
)

ANSWER = 60.0
"""Seconds for an answer: as long as nginx waits."""

THINKS = 0.4
"""Seconds at most that a buyer needs between two steps; half of that on the average."""

ROUNDED = 1.0
"""Seconds by which a shop's deadline may be early, where it keeps whole seconds."""

T = TypeVar("T")


class LeftOut(Exception):
    """A step of the adapter failed for one buyer, who does not go on."""


@dataclass(slots=True)
class MixBuyers(Buyers):
    """The buyers of a run, of whom more come as users need them.

    Attributes:
        most: units that buyers had been promised at one moment and can not have given back.
        most_at: that moment, in ns of the monotonic clock.
        more: makes so many further buyers.
    """

    more: Callable[[int], list[Buyer]] = field(kw_only=True)
    most: int = 0
    most_at: int = 0
    _making: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 0
    _units: int = 0
    _counted: set[str] = field(default_factory=set)
    _holding: dict[str, int] = field(default_factory=dict)
    _until: list[tuple[float, str]] = field(default_factory=list)

    def next_number(self, portion: int) -> int:
        """Return the number of a buyer whom nobody has played yet; make a portion if need be.

        Raises:
            RunImpossible: the adapter has made the same buyers again.
        """
        with self._making:
            while self._next >= len(self.buyers):
                made = self.more(portion)
                if {repr(buyer) for buyer in self.buyers} & {repr(buyer) for buyer in made}:
                    raise RunImpossible(
                        "`buyers` of the adapter makes the same buyers again: it must make others "
                        "each time that it is called"
                    )
                self.add(made)
            self._next += 1
            return self._next - 1

    def add(self, buyers: Sequence[Buyer]) -> None:
        """Let further buyers come."""
        self.last.extend([Unknown("never asked")] * len(buyers))
        self.buyers.extend(buyers)

    @property
    def played(self) -> int:
        """How many buyers have come."""
        return self._next

    @property
    def promised(self) -> int:
        """The units that buyers have been promised and can not have given back by now."""
        with self._lock:
            return self._promised()

    def release(self, order: str) -> None:
        """Count an order no longer, whose units may come back from now on."""
        with self._lock:
            self._units -= self._holding.pop(order, 0)

    @property
    def sold(self) -> dict[str, int]:
        """The units of each order that a buyer was answered with."""
        return {order: asked.units for order, asked in self._sold.items()}

    @property
    def to_repeat(self) -> list[int]:
        """The buyers who have an order that is not given back, by their numbers."""
        orders = {
            outcome.order: n for n, outcome in enumerate(self.last) if isinstance(outcome, Sold)
        }
        back = self.cancelled | self.refused_back | self.expired
        return [number for order, number in orders.items() if order not in back]

    def out_of_time(self, kept: Books) -> set[str]:
        """Return the orders that are not in the books any more and had run out of time."""
        if self.hold is None or not self.holds_orders:
            return set()
        seconds, now = self.hold.seconds - ROUNDED, time.monotonic()
        late = {order for order, asked in self._sold.items() if asked.since + seconds < now}
        return late - kept.orders.keys() - self.cancelled

    def rows(self, bought: Books, books: Books) -> Iterator[snapshot.Row]:
        """Yield the books; where orders expire, one whose answer was lost may have done so."""
        # What was given back is in `bought` by the answers, and not by the books.
        check_ids(self._sold.keys() - self.cancelled - self.expired, books)
        yield from super(MixBuyers, self).rows(bought, books)
        if self.holds_orders:
            for asked in self._unanswered():
                name = f"perhaps {asked.key}"
                about = name, self.sale, asked.buyer, name, asked.units
                yield snapshot.Reservation(*about, state=snapshot.RELEASED)

    def take(self, number: int, key: str, call: str, reply: Reply, outcome: Outcome) -> None:
        """Keep what came of a purchase, and the most that was promised at one moment."""
        super(MixBuyers, self).take(number, key, call, reply, outcome)
        self.last_answer = time.monotonic()
        self.first_answer = self.first_answer or self.last_answer
        if isinstance(outcome, Sold):
            with self._lock:  # the same order may be answered twice at one moment
                self._count(outcome)

    def _count(self, sold: Sold) -> None:
        """Count the units of an order that was answered for the first time."""
        if sold.order in self._counted:
            return
        self._counted.add(sold.order)
        self._holding[sold.order] = sold.units
        self._units += sold.units
        if self.hold is not None and self.holds_orders:
            until = self._sold[sold.order].since + self.hold.seconds - ROUNDED
            heapq.heappush(self._until, (until, sold.order))
        if (promised := self._promised()) > self.most:
            self.most, self.most_at = promised, time.monotonic_ns()

    def _promised(self) -> int:
        now = time.monotonic()
        while self._until and self._until[0][0] < now:
            self._units -= self._holding.pop(heapq.heappop(self._until)[1], 0)
        return self._units


class PacedBuyer:
    """One buyer, on a connection of their user.

    Args:
        all_: the buyers of the run.
        number: of this one.
        connection: to the shop.
        due: when they come in an open loop, in ns of the monotonic clock.
    """

    sleep = staticmethod(time.sleep)

    def __init__(
        self, all_: MixBuyers, number: int, connection: Connection, due: int | None = None
    ) -> None:
        self.all, self._number, self._connection = all_, number, connection
        self._due = due
        if due is not None:
            all_.dues[number] = due
        self._attempts = 0
        self._client = ""

    def think(self, random: Random) -> None:
        """Pause, as buyers do between two steps."""
        self.sleep(random.random() * THINKS)

    def reach_last_step(self, random: Random, *, voucher: bool = False) -> bool:
        """Fill a cart, and take the steps between; whether the shop lets the buyer so far.

        With a voucher, it is put on the cart.
        """
        shop, sale, buyer = self.all.shop, self.all.sale, self._buyer
        request = self._try("add to cart", lambda: _checked(shop.add_to_cart(sale, buyer)))
        if request is not None:
            if not self._fill_cart(request):
                return False
            self.think(random)
        if not self._prepare():
            return False
        if voucher:
            redeem = partial(cast(Vouchers, shop).redeem, voucher=self.all.voucher)
            self.all.about_more.add(self._number)
            self._step("voucher", self._built("redeem", redeem))
        return True

    def press(self, *, times: int = 1, adding: bool = False) -> Outcome:
        """Take the last step until the answer is known; return it.

        Args:
            times: how often at one moment.
            adding: whether a unit is added to the cart at the same moment.
        """
        outcome = self._press(times, adding=adding)
        for _ in range(ATTEMPTS - 1):
            if not isinstance(outcome, Unknown):
                break
            self.all.repeats += 1
            self.sleep(PAUSE)
            outcome = self._press(1)
        return outcome

    def press_when_at_rest(self) -> None:
        """Repeat the last step once, when all is at rest."""
        self._client = f"{AGAIN}{self._key}"
        self._press(1)

    def give_back(self, order: str, *, times: int = 1) -> None:
        """Cancel an order, so many times at one moment."""
        every = self.all
        cancel = partial(cast(Cancels, every.shop).cancel, order=order)
        request = self._built("the request to cancel", cancel)
        # Its units may come back from now on, unless each try turns out to be refused.
        every.release(order)
        every.cancelled.add(order)
        step = partial(self._step, "cancel", request, order=order)
        outcomes = self._at_once([step] * times)
        if all(isinstance(outcome, Refused) for outcome in outcomes):
            every.cancelled.discard(order)
            every.refused_back.add(order)

    def stay_away(self) -> None:
        """Leave the cart as it is, and do not come back."""
        self.all.left_out.add(self._number)
        self.all.last[self._number] = Refused("did not come back")

    @property
    def _buyer(self) -> Buyer:
        return self.all.buyers[self._number]

    @property
    def _key(self) -> str:
        """The key of the purchase, or of this attempt where the shop does not know repeats."""
        knows = Level.REPEATS in self.all.shop.levels
        return f"b{self._number}" if knows else f"b{self._number}.{self._attempts}"

    def _fill_cart(self, request: Request) -> bool:
        """Add to the cart; whether the shop lets the buyer go on."""
        every, number = self.all, self._number
        every.in_carts[number] += 1  # unless it turns out to be refused
        call = every.invoke("cart", number, "", 1)
        reply = self._send(request)
        outcome = by_status(reply)
        every.complete(call, "cart", reply, outcome)
        if isinstance(outcome, Refused):
            del every.in_carts[number]
        if isinstance(every.shop, Added):
            step = "taking in the answer to “add to cart”"
            reason = self._try(step, lambda: every.take_in_cart(number, reply))
            if reason is not None:
                every.in_carts.pop(number, None)
                every.turn_away(number, reason)
                return False
        return True

    def _prepare(self) -> bool:
        """Take the steps before the last one; whether the shop lets the buyer go on."""
        every, number = self.all, self._number
        began = self._due or time.monotonic_ns()

        def send(request: Request) -> Response:
            every.in_carts[number] = max(1, every.in_carts[number])
            return self._answered(request)

        step = "preparing the buyers"
        reason = self._try(step, lambda: every.prepare_one(number, send))
        if every.end_preparation(number):
            took = (time.monotonic_ns() - began) / 1e6
            text = f"prepare: {reason or 'done'}"
            every.report(Finished("prepare", OK, text, took, 0, None))
        if reason is not None:
            every.turn_away(number, reason)
        return reason is None

    def _press(self, times: int, *, adding: bool = False) -> Outcome:
        """Take the last step so many times at one moment; the best that came of it."""
        self._attempts += 1
        request = self._built("the last step's request", self.all.shop.buy)
        step = partial(self._last_step, request, self._key)
        works: list[Callable[[Connection], Outcome]] = [step] * times
        if adding:
            add_more = cast(Carts, self.all.shop).add_more
            more = self._built("adding to the cart", add_more)
            self.all.adding.add(self._number)
            self.all.about_more.add(self._number)
            works.append(partial(self._add_more, more))
        outcomes = self._at_once(works)[:times]
        for kind in (Sold, Unknown):
            if found := [outcome for outcome in outcomes if isinstance(outcome, kind)]:
                return found[0]
        return outcomes[0]

    def _last_step(self, request: Request, key: str, connection: Connection) -> Outcome:
        call = self.all.ask(self._number, key, self._attempts, self._client)
        reply = self._send(request, connection)
        outcome = self._understood(reply)
        self.all.take(self._number, key, call, reply, outcome)
        return outcome

    def _add_more(self, request: Request, connection: Connection) -> Outcome:
        self.all.in_carts[self._number] += 1
        outcome = by_status(self._send(request, connection))
        if isinstance(outcome, Refused):
            self.all.in_carts[self._number] -= 1
        return outcome

    def _understood(self, reply: Reply) -> Outcome:
        """Let the adapter understand an answer; if it cannot, the outcome is unknown."""
        if reply.response is None:
            return unanswered(reply)
        response, number = reply.response, self._number
        step = "understanding an answer"
        try:
            outcome = self.all.understand(number, response)
            if isinstance(outcome, Accepted):
                step = "asking what came of a purchase"
                return self.all.follow_one(number, outcome.ticket, self._answered)
        except Exception as error:  # noqa: BLE001 - an adapter may raise anything
            self.all.problems[f"{step} {_failed(error)}"] += 1
            return Unknown(f"{step} {_failed(error)}")
        return outcome

    def _step(
        self, op: str, request: Request, connection: Connection | None = None, *, order: str = ""
    ) -> Outcome:
        """Take a step that is no purchase, and is about this order."""
        call = self.all.invoke(op, self._number, "", 1, order)
        reply = self._send(request, connection)
        outcome = by_status(reply)
        self.all.complete(call, op, reply, outcome, order)
        return outcome

    def _at_once(self, works: Sequence[Callable[[Connection], Outcome]]) -> list[Outcome]:
        """Do these at one moment, as from several windows."""
        if len(works) == 1:
            return [works[0](self._connection)]
        windows = [self._connection, *(self._connection.like() for _ in works[1:])]
        with ThreadPoolExecutor(len(works)) as pool:
            given = [pool.submit(work, window) for work, window in zip(works, windows, strict=True)]
        for window in windows[1:]:
            window.close()
        return [future.result() for future in given]

    def _answered(self, request: Request) -> Response:
        """Send a request of the adapter's. Raises `OSError` if there is no answer."""
        reply = self._send(request)
        if reply.response is None:
            raise OSError(f"{request.method} {request.path}: {reply.problem}")
        return reply.response

    def _send(self, request: Request, connection: Connection | None = None) -> Reply:
        """Send a request and wait for its answer; the first one was due when the buyer was."""
        due, self._due = self._due, None
        began = due or time.monotonic_ns()
        answer = (connection or self._connection).request(request, request.headers)
        ended = time.monotonic_ns()
        if isinstance(answer, str):
            return Reply(began, ended, None, answer)
        return Reply(began, ended, Response(answer.status, answer.headers(), answer.body), "")

    def _built(self, step: str, build: Callable[[str, Any], Request]) -> Request:
        """Let the adapter build a request of this buyer."""
        request = self._try(step, lambda: _checked(build(self.all.sale, self._buyer)))
        if request is None:
            raise self._leave(f"{step} failed: there is no request")
        return request

    def _try(self, step: str, work: Callable[[], T]) -> T:
        """Do a step of the adapter's. Raises `LeftOut` if it fails, which is reported."""
        try:
            return work()
        except Exception as error:
            raise self._leave(f"{step} {_failed(error)}") from error

    def _leave(self, reason: str) -> LeftOut:
        self.all.problems[reason] += 1
        self.all.left_out.add(self._number)
        if not isinstance(self.all.last[self._number], Sold):
            self.all.last[self._number] = Unknown(reason)
        return LeftOut(reason)


def _checked(request: object) -> Request | None:
    [built] = valid(list[Request | None], [request])
    return built


def _failed(error: Exception) -> str:
    return " ".join(f"failed: {type(error).__name__}: {error}".split())
