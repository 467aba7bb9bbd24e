"""What sells: requests queue in their process, and processes queue for the item's lock. The holder
sells to its whole queue in one guarded transaction.

A transaction has a price however little it sells. Where a process sells many items of which none
has a long queue, a transaction per item would cost each buyer most of that price. So the leaders of
these queues queue in turn, and one of them sells a few purchases each of several items, without the
items' locks. It is correct for the same reason as a cart: the message that commits takes the units,
by the guard's condition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, NamedTuple

from django.utils.module_loading import import_string

from inventory import conf
from inventory.conf import feature_flags
from inventory.hooks import LOCKED, hooks
from inventory.metrics import count_purchase, metrics
from inventory.outcomes import (
    Busy,
    Granted,
    KeyReused,
    Level,
    NoSuchItem,
    OnGranted,
    Outcome,
    OutcomeUnknown,
    Purchase,
    PurchasesRefused,
    PurchaseTicket,
    SoldOut,
    fail,
)
from inventory.postgresql.base import lend_connections
from inventory.redis import ITEM_LOCK
from inventory.selling import batch
from inventory.selling.commit import Attempts, CommitUnknown
from inventory.selling.hint import SoldOutItems
from inventory.selling.queue import CombiningQueue, Turn

FEW = 16
"""Purchases of an item that are sold together with those of other items. More of them are worth a
transaction of their own, and the item's lock."""

GATHER = 0.002
"""Seconds to wait for purchases of further items."""

MAX_ITEMS = 64
"""Items in a transaction: each of their rows is locked until all are written."""


class Unsold(NamedTuple):
    """Purchases of an item that were not sold together with those of other items.

    Attributes:
        tickets: to be sold on their own; empty if all were sold.
        unknown: whether they may have been sold all the same.
    """

    tickets: Sequence[PurchaseTicket]
    unknown: bool


class SeveralItems:
    """The leaders of several items' queues queue in turn, and one of them sells for all.

    Args:
        sold_out: notes each item of which units were sold, before any buyer gets an answer.
    """

    def __init__(self, sold_out: SoldOutItems) -> None:
        self._sold_out = sold_out
        self._leaders: CombiningQueue[Sequence[PurchaseTicket], Unsold] = CombiningQueue(
            max_batch=MAX_ITEMS,
            max_waiting=conf.MAX_WAITING.get(),
            max_wait=conf.MAX_WAIT.get(),
        )

    def sell(self, tickets: Sequence[PurchaseTicket], on_granted: OnGranted) -> Unsold:
        """Sell purchases of an item together with those of the other items that are waiting.

        Raises:
            Busy: the queue of the leaders did not move in time; nothing was done.
            OutcomeUnknown: the request that sold for all was ended.
        """
        turn = self._leaders.enter(on_granted, tickets)
        if turn.leads:
            with turn:
                self._serve(on_granted, turn)
        return turn.result()

    def _serve(self, on_granted: OnGranted, turn: Turn[Sequence[PurchaseTicket], Unsold]) -> None:
        # Without this, buyers who have just been answered would always be too late for this
        # transaction, and two halves of them would take turns.
        time.sleep(GATHER)
        items = turn.drain()
        tickets = [ticket for each in items for ticket in each.request]
        metrics.observe("batch_size", len(tickets))
        unknown = False
        try:
            with hooks.batch(tickets):
                levels = batch.sell(tickets, on_granted)
        except Exception as error:  # noqa: BLE001  # each item tries again and answers its own buyers
            unknown = isinstance(error, CommitUnknown)
            metrics.count("commit_unknown" if unknown else "batches_split")
            batch.forget_answers(tickets)
        else:
            for item, level in levels.items():
                if level.available == 0:
                    self._sold_out.ran_out(item)
        finally:
            lend_connections()
        for each in items:
            unsold = [ticket for ticket in each.request if ticket.answer is None]
            each.answer = Unsold(unsold, unknown)


class QueueKey(NamedTuple):
    """Purchases with equal keys form a batch: one item, opened by the same function."""

    item: int
    on_granted: OnGranted


class Seller:
    """Collect requests, lock once, commit together.

    Where this process sells other items at the same time, an item's few purchases are sold in one
    transaction with theirs, without the items' locks.

    Attributes:
        name: the label of its purchases in `purchase_seconds`.
        sell_batch: makes one transaction; another way of selling may replace it.
    """

    name: ClassVar[str] = "combining"
    sell_batch = staticmethod(batch.sell)

    def __init__(self) -> None:
        self._sold_out = SoldOutItems()
        self._queue: CombiningQueue[Purchase, Outcome] = CombiningQueue(
            max_batch=conf.MAX_BATCH.get(),
            max_waiting=conf.MAX_WAITING.get(),
            max_wait=conf.MAX_WAIT.get(),
        )
        # The queues whose leaders are at work.
        self._served: set[QueueKey] = set()
        self._several = SeveralItems(self._sold_out)

    def sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        """Sell to one buyer and commit; see `reserve`."""
        began = time.perf_counter()
        try:
            outcome = self._refuse_or_queue(purchase, on_granted)
        except BaseException as error:
            count_purchase(self.name, began, error)
            raise
        count_purchase(self.name, began, outcome)
        return outcome

    def _refuse_or_queue(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        if self._sold_out.refuses(purchase):
            return SoldOut(0)
        lend_connections()
        key = QueueKey(purchase.item, on_granted)
        turn = self._queue.enter(key, purchase)
        if turn.leads:
            with turn:
                self._serve(key, turn)
        return turn.result()

    def _serve(self, key: QueueKey, turn: Turn[Purchase, Outcome]) -> None:
        tickets: Sequence[PurchaseTicket] = ()
        if feature_flags().admission and self._sold_out.worth_a_look(key.item):
            tickets = self._sold_out.refuse(key.item, turn.drain())
            if not tickets:
                return
        self._served.add(key)
        try:
            if len(self._served) > 1 and (len(tickets) or self._queue.waiting(key)) <= FEW:
                unsold = self._several.sell(tickets or turn.drain(), key.on_granted)
                if unsold.tickets:
                    self._sell_locked(key, turn, unsold.tickets)
                    if unsold.unknown:
                        _refuse_none(unsold.tickets)
            else:
                self._sell_locked(key, turn, tickets)
        finally:
            self._served.discard(key)

    def _sell_locked(
        self, key: QueueKey, turn: Turn[Purchase, Outcome], tickets: Sequence[PurchaseTicket]
    ) -> None:
        """Sell to tickets that were drained before; if there are none, drain the queue."""
        if not feature_flags().lock:
            self._sell(key, tickets or turn.drain(), token=None)
            return
        with ITEM_LOCK.hold(key.item) as token:
            hooks.failpoint(LOCKED)
            # Drain after locking: the batch then includes requests that arrived during the wait.
            self._sell(key, tickets or turn.drain(), token)

    def _sell(self, key: QueueKey, tickets: Sequence[PurchaseTicket], token: int | None) -> None:
        metrics.observe("batch_size", len(tickets))
        with hooks.batch(tickets):
            self._sell_or_split(key, tickets, token)

    def _sell_or_split(
        self, key: QueueKey, tickets: Sequence[PurchaseTicket], token: int | None
    ) -> None:
        """Sell a batch; if one row fails, split it until the other purchases are sold."""
        try:
            for attempt in Attempts():
                with attempt:
                    fence = token if attempt.fenced else None
                    levels = self.sell_batch(tickets, key.on_granted, fence, locked=attempt.locked)
            if attempt.in_doubt:
                _refuse_none(tickets)
            self._committed(key.item, tickets, levels[key.item])
        except (Busy, OutcomeUnknown, NoSuchItem) as error:
            fail(tickets, error)
        except PurchasesRefused as refused:
            self._sell_to_others(refused, key, tickets, token)
        except Exception as error:  # noqa: BLE001  # each buyer gets their own error
            if len(tickets) == 1:
                tickets[0].answer = error
                return
            metrics.count("batches_split")
            middle = len(tickets) // 2
            self._sell_or_split(key, tickets[:middle], token)
            self._sell_or_split(key, tickets[middle:], token)

    def _sell_to_others(
        self,
        refused: PurchasesRefused,
        key: QueueKey,
        tickets: Sequence[PurchaseTicket],
        token: int | None,
    ) -> None:
        """Give each refused purchase its error, and sell to the others.

        A repeat of a refused key in the same batch is tried again: it may be an order's first.
        """
        others: list[PurchaseTicket] = []
        for ticket in tickets:
            answer = ticket.answer
            error = None
            if isinstance(answer, Granted) and not answer.replayed:
                error = refused.errors.get(answer.reservation)
            if error is None:
                others.append(ticket)
            else:
                fail([ticket], error)
        if len(others) == len(tickets):
            raise AssertionError("refused, but none of these") from refused
        if others:
            self._sell_or_split(key, others, token)

    def _committed(self, item: int, tickets: Sequence[PurchaseTicket], level: Level) -> None:
        """Note a committed batch before any buyer gets an answer."""
        if level.available == 0:
            self._sold_out.ran_out(item)


def _refuse_none(tickets: Sequence[PurchaseTicket]) -> None:
    """Answer refusals as unknown, after an attempt that may still sell what was refused."""
    known = (Granted, KeyReused)
    refused = [each for each in tickets if not isinstance(each.answer, known)]
    fail(refused, OutcomeUnknown("an earlier attempt to sell it may still arrive"))


def reserve(purchase: Purchase, on_granted: OnGranted) -> Outcome:
    """Reserve units for a buyer, and commit.

    Args:
        purchase: the request.
        on_granted: opens what the shop needs (its order), in the transaction that reserves.
            Pass the same function object each time: only purchases with the same function are
            combined.

    Returns:
        Granted, SoldOut, LimitReached or KeyReused.

    Raises:
        Busy: overload, or the database is unreachable; nothing was written.
        OutcomeUnknown: it may have been sold; a retry with the same key gets the result.
        NoSuchItem: no such item.
        Exception: any exception of `on_granted`; nothing was written for this purchase.
    """
    return seller().sell(purchase, on_granted)


@cache
def seller() -> Seller:
    """Return what sells in this process: one object, because it holds queues.

    What the setting names instead has the same method `sell`.
    """
    made: Seller = import_string(conf.SELLER.get())()
    return made


# A seller keeps the limits and the connection that it was created with.
for _each in (conf.SELLER, conf.REDIS_URL, conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT):
    _each.on_change(seller.cache_clear)
