"""The queue in which purchases wait, and the seller: one request sells to all that wait.

A purchase is a ticket with one line, a cart a ticket with several. Tickets for the same items wait
in one line, in order of arrival, and a request that finds no leader for its line becomes its
leader. There are two ways to lead:

- **Alone.** The leader of one item's line takes the item's lock, for which the processes queue.
  Then it takes the tickets that wait by now, sells to them in one transaction, hands the line on to
  the next request in it, and only then releases the answers. So while one batch is committed, the
  next one gathers. Different items' leaders do this at the same time, and their commits overlap.
- **Together.** A transaction costs nearly the same however little it sells. Where lines are short
  and others are being sold, one leader waits a moment, takes the tickets of all short lines, and
  sells to them in one transaction, without the items' locks. That is correct for the same reason as
  a cart of several items: the guard's condition decides, in the message that commits.

For example, with a line for each of the items A, B and C:

    time 0 ms   request 1 for A finds nobody: it leads A alone, takes A's lock and sells
    time 1 ms   2 and 3 for A wait in A's line; 4 for B finds others at work: it leads together
    time 2 ms   5 for C and 6, a cart of B and C, wait for 4, each in a line of its own
    time 3 ms   4 takes the lines of B, C and the cart, and sells to 4, 5 and 6
    time 4 ms   1 has committed: A's line is short, and 4 is at work, so 2 and 3 wait for it
    time 6 ms   4 has committed, and only A's line is left: 2 leads it alone

This is flat combining (Hendler, Incze, Shavit, Tzafrir: "Flat combining and the
synchronization-parallelism tradeoff", SPAA 2010), applied to transactions. There is no thread to
start or stop, and an empty queue leaves nothing behind. It works on threads and, after gevent's
monkey patch, on greenlets. Where nothing is sold, as in a cache that reads for all who wait, lines
are led alone only (`few=0`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Generic
from weakref import WeakSet

from django.utils.module_loading import import_string

from inventory import conf, metrics
from inventory.hooks import LOCKED, hooks
from inventory.outcomes import (
    MAX_LINES,
    AnswerT,
    Busy,
    Cart,
    CartAnswer,
    CartTicket,
    Granted,
    KeyReused,
    LimitReached,
    LineRefused,
    NotOpened,
    OnGranted,
    Outcome,
    OutcomeUnknown,
    Purchase,
    PurchasesRefused,
    RequestT,
    SoldOut,
    Ticket,
    fail,
)
from inventory.postgresql.base import connected, lend_connections
from inventory.redis import ITEM_LOCK, DegradableLock
from inventory.selling import batch
from inventory.selling.commit import Attempts
from inventory.selling.hint import SoldOutItems

FEW = 16
"""Tickets in a line that are sold together with other lines. More of them are worth a transaction
of their own, and the item's lock."""

GATHER = 0.002
"""Seconds for which a leader waits for tickets of further lines."""

MAX_ITEMS = 64
"""Items in a transaction: each of their rows is locked until all are written."""


@dataclass(slots=True, eq=False)
class _Line(Generic[RequestT, AnswerT]):
    """The requests that wait for one name.

    Attributes:
        weight: of the name, against `max_weight` of the queue: for a cart, its number of items.
        led: whether it has a leader. Otherwise its requests wait for a leader that serves several
            lines together.
    """

    name: Hashable
    weight: int
    led: bool = False
    waiting: deque[Turn[RequestT, AnswerT]] = field(default_factory=deque)


class Turn(Ticket[RequestT, AnswerT]):
    """A request in the queue. If it leads, it serves its batch inside a `with` block.

    The block calls `drain` when it is ready to serve (the batch then contains every request that
    has arrived) and fills in the answers, which may be exceptions. An exception that leaves the
    block is the answer to the whole batch.

    Attributes:
        leads: whether it has to serve a batch; otherwise it has been answered.
        together: whether it then serves other short lines with its own.
        since: monotonic time at which it came.
        woken: a lock that is held while the request's thread waits.
    """

    __slots__ = ("_batch", "_line", "_lines", "_queue", "leads", "since", "together", "woken")

    def __init__(
        self,
        queue: CombiningQueue[RequestT, AnswerT],
        line: _Line[RequestT, AnswerT],
        request: RequestT,
    ) -> None:
        super().__init__(request)
        self._queue, self._line = queue, line
        self._lines = [line]
        self._batch: list[Turn[RequestT, AnswerT]] = []
        self.leads = self.together = False
        self.since = time.monotonic()
        # A bare lock is the cheapest object that one thread can wait on and another release.
        self.woken = threading.Lock()
        self.woken.acquire()

    def result(self) -> AnswerT:
        """Return the answer, or raise it; its leader has filled it in."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    def wait(self) -> None:
        """Wait until it is answered or leads."""
        # No timeout, which would cost a timer per request: the leader answers the requests that
        # have waited too long.
        try:
            self.woken.acquire()
        except BaseException:
            # The thread is being ended while it waits, as can happen to a greenlet.
            self._leave()
            raise

    def __enter__(self) -> None:
        pass

    def drain(self) -> Sequence[Ticket[RequestT, AnswerT]]:
        """Take the requests that wait into the batch; return the batch."""
        queue, batch = self._queue, self._batch
        oldest = time.monotonic() - queue.max_wait
        late: list[Turn[RequestT, AnswerT]] = []
        with queue.mutex:
            if self.together:
                queue.add_short_lines(self._lines)
            for line in self._lines:
                waiting = line.waiting
                while waiting and len(batch) < queue.max_batch:
                    turn = waiting.popleft()
                    in_time = turn is self or turn.since >= oldest
                    (batch if in_time else late).append(turn)
        if late:
            fail(late, Busy(f"the queue did not move for {queue.max_wait} s"))
            _release(late)
        return batch

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        batch = self._batch
        if not batch:
            # The leader failed before it drained: only it gets the error; the next request leads
            # its own attempt.
            with self._queue.mutex:
                self._line.waiting.remove(self)
            batch.append(self)
        # Hand over first, so that the next batch starts while these answers go out.
        self._queue.pass_on(self._lines, together=self.together)
        if isinstance(error, Exception):
            fail(batch, error)
        elif error is not None:
            # The leader is being ended in the middle of a batch that others wait for.
            ended = OutcomeUnknown("the leader was ended")
            ended.__cause__ = error
            fail(batch, ended)
        _release(batch)
        return isinstance(error, Exception)

    def _leave(self) -> None:
        """Remove it from its line; hand the lead on if it had just received it."""
        with self._queue.mutex:
            if self in self._line.waiting:
                self._line.waiting.remove(self)
            self._queue.forget_if_empty(self._line)
        if self.leads:
            self._queue.pass_on(self._lines, together=self.together)


def _release(batch: Sequence[Turn[Any, Any]]) -> None:
    for turn in batch:
        if turn.answer is None:
            turn.answer = OutcomeUnknown("the request was not answered")
        if not turn.leads:
            turn.woken.release()


class CombiningQueue(Generic[RequestT, AnswerT]):
    """Serves concurrent requests together: those of one name in order of arrival and, where only a
    few wait for each of several names, those of all these names::

        turn = queue.enter(name, request)
        if turn.leads:
            with turn:
                ...  # answer each of turn.drain()
        return turn.result()

    Args:
        max_batch: maximum requests per batch; bounds how long a transaction runs.
        max_waiting: maximum requests waiting per name; further ones are refused at once.
        max_wait: seconds after which a waiting request is refused, once the running batch ends.
        few: requests of a name that are served together with those of other names; 0: never.
        max_weight: of the names that are served together.
        counted: whether its requests are purchases, which the gauge `waiting` counts.

    Attributes:
        lines: those with a leader or with waiting requests, by name.
    """

    def __init__(
        self,
        *,
        max_batch: int,
        max_waiting: int,
        max_wait: float,
        few: int = 0,
        max_weight: int = 0,
        counted: bool = True,
    ) -> None:
        self.max_batch = max_batch
        self.max_waiting = max_waiting
        self.max_wait = max_wait
        self.mutex = threading.Lock()
        self.lines: dict[Hashable, _Line[RequestT, AnswerT]] = {}
        self._few, self._max_weight = few, max_weight
        self._leaders = 0
        # Lines without a leader, in order. They wait for the request that leads together, so there
        # are none if no request does.
        self._short: dict[Hashable, _Line[RequestT, AnswerT]] = {}
        self._has_joint_leader = False
        if counted:
            _queues.add(self)

    def enter(self, name: Hashable, request: RequestT, weight: int = 1) -> Turn[RequestT, AnswerT]:
        """Queue a request; return when it is answered or leads.

        Raises:
            Busy: too many are waiting; nothing was done.
        """
        leader: Turn[RequestT, AnswerT] | None = None
        with self.mutex:
            line = self.lines.get(name)
            if line is None:
                line = self.lines[name] = _Line(name, weight)
            elif len(line.waiting) >= self.max_waiting:
                raise Busy(f"{self.max_waiting} are waiting already")
            turn = Turn(self, line, request)
            line.waiting.append(turn)
            if not line.led:
                leader = self._appoint(line, is_only=True)
        if leader is not turn:
            if leader is not None:
                leader.woken.release()
            turn.wait()
        return turn

    def pass_on(self, lines: Sequence[_Line[RequestT, AnswerT]], *, together: bool) -> None:
        """Take lines back from a leader that is done, and wake the next leaders."""
        with self.mutex:
            self._leaders -= 1
            without_leader: list[_Line[RequestT, AnswerT]] = []
            if together:
                self._has_joint_leader = False
                # These lines waited for this leader.
                without_leader += self._short.values()
            for line in lines:
                line.led = False
                if line.waiting:
                    without_leader.append(line)
                else:
                    del self.lines[line.name]
            leaders: list[Turn[RequestT, AnswerT]] = []
            for line in without_leader:
                leader = self._appoint(line, is_only=len(without_leader) == 1)
                if leader is not None:
                    leaders.append(leader)
        for leader in leaders:
            leader.woken.release()

    def waiting(self, name: Hashable) -> int:
        """Return how many requests wait for a name now."""
        line = self.lines.get(name)
        return len(line.waiting) if line else 0

    def all_waiting(self) -> int:
        """Return how many requests wait now, for all names."""
        return sum(len(line.waiting) for line in list(self.lines.values()))

    # The callers of these hold the mutex.

    def _appoint(
        self, line: _Line[RequestT, AnswerT], *, is_only: bool
    ) -> Turn[RequestT, AnswerT] | None:
        """Return a new leader of a line, to be woken; None if the line waits for a joint leader.

        Args:
            line: a line without a leader and with a waiting request.
            is_only: whether no other line needs a leader now.
        """
        leader = line.waiting[0]
        if len(line.waiting) <= self._few and not (is_only and self._leaders == 0):
            if self._has_joint_leader:
                self._short[line.name] = line
                return None
            self._has_joint_leader = leader.together = True
        self._short.pop(line.name, None)
        self._leaders += 1
        line.led = leader.leads = True
        return leader

    def add_short_lines(self, lines: list[_Line[RequestT, AnswerT]]) -> None:
        """Add waiting short lines to a joint leader's, in order, up to the maximum weight."""
        weight = sum(line.weight for line in lines)
        for line in list(self._short.values()):
            weight += line.weight
            if weight > self._max_weight:
                break
            del self._short[line.name]
            line.led = True
            lines.append(line)

    def forget_if_empty(self, line: _Line[RequestT, AnswerT]) -> None:
        """Forget a line that has neither a leader nor a waiting request."""
        # It may have been forgotten already, and a new line may have its name.
        if not line.led and not line.waiting and self.lines.get(line.name) is line:
            del self.lines[line.name]
            self._short.pop(line.name, None)


_queues: WeakSet[CombiningQueue[Any, Any]] = WeakSet()
metrics.sample(metrics.WAITING, lambda: float(sum(queue.all_waiting() for queue in list(_queues))))


_ITEM = attrgetter("item")


class Seller:
    """Collects requests, locks their item once, and commits them together.

    Other ways of selling derive from it and replace these attributes.

    Attributes:
        name: the label in `purchase_seconds` of its purchases; that of carts is `cart`.
        few: tickets in a line that are sold together with other lines; 0: none.
        sell_batch: decides and writes a batch in one transaction.
        lock: the item's lock, held while the item's line is sold.
        hints: class of the memory of items that have sold out.
    """

    name: ClassVar[str] = "combining"
    few: ClassVar[int] = FEW
    sell_batch = staticmethod(batch.sell)
    lock: ClassVar[DegradableLock] = ITEM_LOCK
    hints: ClassVar[type[SoldOutItems]] = SoldOutItems

    def __init__(self) -> None:
        self._sold_out = self.hints()
        self._queue: CombiningQueue[Cart, CartAnswer] = CombiningQueue(
            max_batch=conf.MAX_BATCH.get(),
            max_waiting=conf.MAX_WAITING.get(),
            max_wait=conf.MAX_WAIT.get(),
            few=self.few,
            max_weight=MAX_ITEMS,
        )

    def sell(self, cart: Cart) -> CartAnswer:
        """Sell to one buyer and commit; see `reserve_many`."""
        began = time.perf_counter()
        label = self.name if len(cart.lines) == 1 else "cart"
        try:
            answer = self._refuse_or_queue(cart)
        except BaseException as error:
            count_purchase(label, began, error)
            raise
        outcome = answer.outcome if isinstance(answer, LineRefused) else answer[0]
        count_purchase(label, began, outcome)
        return answer

    def _refuse_or_queue(self, cart: Cart) -> CartAnswer:
        items = tuple(map(_ITEM, cart.lines))
        is_sold_out = len(items) == 1 and items[0] in self._sold_out.seen
        if is_sold_out and self._sold_out.refuses(cart.lines[0]):
            return LineRefused(0, SoldOut(0))
        if connected.get():
            lend_connections()
        turn = self._queue.enter(items, cart, weight=len(items))
        if turn.leads:
            with turn:
                self._serve(items, turn)
        return turn.result()

    def _serve(self, items: tuple[int, ...], turn: Turn[Cart, CartAnswer]) -> None:
        if turn.together or len(items) > 1:
            # Without the items' locks: while it waited for the second lock, the buyers of the
            # first item would wait as well.
            if turn.together:
                # Without this pause, buyers who have just been answered would always come too late
                # for this transaction: two halves of the buyers would take turns.
                time.sleep(GATHER)
            if tickets := self._refuse_sold_out(turn.drain()):
                self._sell(tickets, token=None)
            return
        [item] = items
        tickets = ()
        if item in self._sold_out.seen:
            tickets = self._refuse_sold_out(turn.drain())
            if not tickets:
                return
        with self.lock.hold(item) as token:
            hooks.failpoint(LOCKED)
            # Drain after locking: the batch then includes requests that arrived during the wait.
            self._sell(tickets or turn.drain(), token)

    def _refuse_sold_out(self, tickets: Sequence[CartTicket]) -> Sequence[CartTicket]:
        """Refuse purchases of items that are still sold out; return the other tickets."""
        for item in {line.item for ticket in tickets for line in ticket.request.lines}:
            if item in self._sold_out.seen:
                tickets = self._sold_out.refuse(item, tickets)
        return tickets

    def _sell(self, tickets: Sequence[CartTicket], token: int | None) -> None:
        metrics.BATCH_SIZE.observe(len(tickets))
        with hooks.batch(tickets):
            self._sell_or_split(tickets, token)
            # The batch left the tickets of refused items undecided: a refusal needs the rows' lock.
            if left := [ticket for ticket in tickets if ticket.answer is None]:
                self._sell_or_split(left, token, locked=True)

    def _sell_or_split(
        self, tickets: Sequence[CartTicket], token: int | None, *, locked: bool = False
    ) -> None:
        """Sell a batch; if one ticket fails, split it until the others are sold."""
        attempts = Attempts()
        try:
            levels = attempts.until_done(
                lambda: self.sell_batch(
                    tickets,
                    token if attempts.fenced else None,
                    locked=locked or attempts.locked,
                )
            )
            if attempts.in_doubt:
                _mark_refusals_unknown(tickets)
            for item, level in levels.items():
                if level.available == 0:
                    self._sold_out.ran_out(item)
        except (Busy, OutcomeUnknown) as error:
            fail(tickets, error)
        except PurchasesRefused as refused:
            self._sell_to_others(refused, tickets, token)
        except Exception as error:  # noqa: BLE001  # each buyer gets their own error
            if len(tickets) == 1:
                tickets[0].answer = error
                return
            metrics.BATCHES_SPLIT.inc()
            middle = len(tickets) // 2
            self._sell_or_split(tickets[:middle], token, locked=locked)
            self._sell_or_split(tickets[middle:], token, locked=locked)

    def _sell_to_others(
        self, refused: PurchasesRefused, tickets: Sequence[CartTicket], token: int | None
    ) -> None:
        """Give each refused purchase or cart its error, and sell to the others.

        A repeat of a refused key in the same batch is sold again, and may be granted now.
        """
        others: list[CartTicket] = []
        for ticket in tickets:
            answer = ticket.answer if isinstance(ticket.answer, list) else []
            errors = [
                refused.errors[grant.reservation]
                for grant in answer
                if not grant.replayed and grant.reservation in refused.errors
            ]
            if errors:
                fail([ticket], errors[0])
            else:
                others.append(ticket)
        if len(others) == len(tickets):
            raise AssertionError("refused, but none of these") from refused
        if others:
            self._sell_or_split(others, token)


OUTCOMES: dict[type, str] = {
    Granted: "granted",
    SoldOut: "sold_out",
    LimitReached: "limit_reached",
    KeyReused: "key_reused",
    Busy: "busy",
    NotOpened: "declined",
    OutcomeUnknown: "unknown",
}
"""Names of outcomes in the metric, in addition to `replayed`, `failed` and `other`."""

# To look a series up by its labels takes longer than to count in it.
_seconds_of = cache(metrics.PURCHASE_SECONDS.labels)


def count_purchase(strategy: str, since: float, outcome: object) -> None:
    """Count a purchase with its duration.

    Args:
        strategy: label of the way of selling.
        since: the time at which it began, by `time.perf_counter`.
        outcome: its outcome, or the exception that ended it.
    """
    if isinstance(outcome, Granted) and outcome.replayed:
        name = "replayed"
    elif isinstance(outcome, NotOpened):
        name = OUTCOMES[NotOpened]
    else:
        # A purchase that was made must not fail for want of a name.
        failed = isinstance(outcome, BaseException)
        name = OUTCOMES.get(type(outcome), "failed" if failed else "other")
    _seconds_of(strategy, name).observe(time.perf_counter() - since)


def _mark_refusals_unknown(tickets: Sequence[CartTicket]) -> None:
    """Replace refusals by "unknown": an earlier attempt may still sell what was refused."""
    refused = [
        ticket
        for ticket in tickets
        if not isinstance(ticket.answer, list)
        and not (
            isinstance(ticket.answer, LineRefused) and isinstance(ticket.answer.outcome, KeyReused)
        )
    ]
    fail(refused, OutcomeUnknown("an earlier attempt to sell it may still arrive"))


def reserve(purchase: Purchase, on_granted: OnGranted) -> Outcome:
    """Reserve units for a buyer, and commit.

    Args:
        purchase: the request.
        on_granted: opens what the shop needs (its order), in the transaction that reserves.

    Returns:
        Granted, SoldOut, LimitReached or KeyReused.

    Raises:
        Busy: overload, or the database is unreachable; nothing was written.
        OutcomeUnknown: it may have been sold; a retry with the same key gets the result.
        NoSuchItem: no such item.
        Exception: any exception of `on_granted`; nothing was written for this purchase.
    """
    return only_outcome(seller().sell(Cart((purchase,), on_granted)))


def reserve_many(purchases: Sequence[Purchase], on_granted: OnGranted) -> CartAnswer:
    """Reserve all of a buyer's purchases and commit, or reserve none.

    Args:
        purchases: the lines, of one buyer, each with its own key (see `line_keys`); a
            repeated cart must have the same order.
        on_granted: opens what the shop needs, in the same transaction.

    Returns:
        The grants in the order of the lines, all new or all replayed; or the refused line.

    Raises:
        Busy, OutcomeUnknown, NoSuchItem: as of `reserve`.
        ValueError: no lines, or too many.
        Exception: any exception of `on_granted`; nothing was written for this cart.
    """
    if not 1 <= len(purchases) <= MAX_LINES:
        raise ValueError(f"a cart has 1 to {MAX_LINES} lines, not {len(purchases)}")
    return seller().sell(Cart(purchases, on_granted))


def reserve_in_order(purchases: Sequence[Purchase], on_granted: OnGranted) -> list[Outcome]:
    """Reserve an item for several buyers in one transaction; the first in the list come first.

    For a shop that knows beforehand which buyers get the units, such as the winners of a draw. They
    do not queue: each purchase is decided by itself, in the given order.

    Args:
        purchases: of one item, by different buyers, each with its own key; not empty.
        on_granted: opens what the shop needs, once for all new grants, in the same transaction.

    Returns:
        The outcomes in the order of the purchases. A key that was granted before is replayed.

    Raises:
        Busy, OutcomeUnknown, NoSuchItem: as of `reserve`, for all of them.
        Exception: any exception of `on_granted`; nothing was written.
    """
    tickets = [CartTicket(Cart((purchase,), on_granted)) for purchase in purchases]
    attempts = Attempts()
    with ITEM_LOCK.hold(purchases[0].item) as token:
        attempts.until_done(
            lambda: batch.sell(tickets, token if attempts.fenced else None, locked=attempts.locked)
        )
    if attempts.in_doubt:
        _mark_refusals_unknown(tickets)
    outcomes: list[Outcome] = []
    for ticket in tickets:
        answer = ticket.answer
        assert answer is not None
        if isinstance(answer, BaseException):
            raise answer
        outcomes.append(only_outcome(answer))
    return outcomes


def only_outcome(answer: CartAnswer) -> Outcome:
    """Return the outcome of a cart of one line."""
    return answer.outcome if isinstance(answer, LineRefused) else answer[0]


@cache
def seller() -> Seller:
    """Return this process's seller: one object, because it holds the queues.

    The setting `INVENTORY_SELLER` may name another class that has the method `sell`.
    """
    made: Seller = import_string(conf.SELLER.get())()
    return made


# A seller keeps the limits that it was created with, and what it knows of items.
for _setting in (conf.SELLER, conf.REDIS, conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT):
    _setting.on_change(seller.cache_clear)
