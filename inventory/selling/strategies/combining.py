"""``combining``: the default. Requests queue in their process, and processes queue for the item's
lock. The holder sells to its whole queue in one guarded transaction.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple, Self

from django.db import Error

from inventory import conf, failpoints
from inventory.degradable_lock import ITEM_LOCK
from inventory.feature_flags import feature_flags
from inventory.metrics import metrics
from inventory.outcomes import (
    Busy,
    Declined,
    Granted,
    KeyReused,
    Level,
    OnGranted,
    Outcome,
    OutcomeUnknown,
    Purchase,
    PurchaseTicket,
    SoldOut,
    fail,
)
from inventory.selling import batch, guard
from inventory.selling.combiner import Combiner, Drain
from inventory.selling.commit import commit_with_retry, lend_connections
from inventory.selling.several_items import FEW, SeveralItems
from inventory.selling.strategies.base import Strategy
from inventory.sold_out.buyers import BuyersOfItem
from inventory.sold_out.hint import TRUST, Hint, Sighting, hint
from inventory.tracing import hooks


class QueueKey(NamedTuple):
    """Purchases with equal keys form a batch: one item, opened by the same function."""

    item: int
    on_granted: OnGranted


LOOK_AGAIN = TRUST / 3
"""Seconds between readings of a sold-out item's hint. A busy process may wait twice as long for the
answer, and what it read before must last until then."""


class Refusing:
    """An item that is sold out, from when its hint was read.

    Args:
        seen: the hint.
        buyers: of the item, who may repeat a purchase.
        due: of the monotonic clock: when to read it again.
    """

    __slots__ = ("_until", "buyers", "due")

    def __init__(self, seen: Sighting, buyers: frozenset[int], due: float) -> None:
        self._until, self.buyers, self.due = seen.until, buyers, due

    def refuses(self, buyer: int) -> bool:
        """Whether a buyer may be refused now, without reading the hint again."""
        return time.monotonic() < self._until and buyer not in self.buyers


class Combining(Strategy):
    """Collect requests, lock once, commit together.

    Where this process sells other items at the same time, an item's few purchases are sold in one
    transaction with theirs, without the items' locks.

    Args:
        hint: the sold-out hints.

    Attributes:
        joins_items: whether several items may share a transaction; not where a subclass writes in
            another way.
    """

    name = "combining"
    fenced = True
    summary = "requests combined per process, one guarded transaction for the batch"
    joins_items: ClassVar[bool] = True

    def __init__(self, hint: Hint) -> None:
        self._hint = hint
        self._buyers = BuyersOfItem()
        # Items that this process has seen sold out: only these are worth a look at the hint.
        self._ran_out: set[int] = set()
        # Of these, the items of which all but the buyers are refused at once.
        self._refusing: dict[int, Refusing] = {}
        self._combiner: Combiner[Purchase, Outcome] = Combiner(
            self._handle,
            max_batch=conf.MAX_BATCH.get(),
            max_waiting=conf.MAX_WAITING.get(),
            max_wait=conf.MAX_WAIT.get(),
        )
        # The queues whose leaders are at work.
        self._served: set[QueueKey] = set()
        self._several = SeveralItems(self._note)

    @classmethod
    def make(cls) -> Self:  # noqa: D102
        return cls(hint())

    def sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:  # noqa: D102
        refusing = self._refusing.get(purchase.item)
        if refusing is not None and time.monotonic() >= refusing.due:
            # One request in a while reads it again, beside the queue. The others go on being
            # refused by what was read before, also while the answer is under way.
            refusing.due = time.monotonic() + LOOK_AGAIN
            refusing = self._look(purchase.item)
        if refusing is not None and refusing.refuses(purchase.buyer):
            metrics.count("refused_by_hint")
            return SoldOut(0)
        lend_connections()
        return self._combiner.submit(QueueKey(purchase.item, on_granted), purchase)

    def _handle(self, name: Hashable, drain: Drain[Purchase, Outcome]) -> None:
        assert isinstance(name, QueueKey)
        tickets: Sequence[PurchaseTicket] = ()
        if feature_flags().admission and name.item in self._ran_out:
            tickets = self._refuse_by_hint(name.item, drain())
            if not tickets:
                return
        self._served.add(name)
        try:
            waiting = len(tickets) or self._combiner.waiting(name)
            if self.joins_items and waiting <= FEW and len(self._served) > 1:
                unsold = self._several.sell(tickets or drain(), name.on_granted)
                if unsold.tickets:
                    self._sell_locked(name, lambda: unsold.tickets)
                    unsold.refuse_none()
            else:
                self._sell_locked(name, lambda: tickets or drain())
        finally:
            self._served.discard(name)

    def _sell_locked(self, name: QueueKey, drain: Drain[Purchase, Outcome]) -> None:
        if not feature_flags().lock:
            self._sell(name, drain(), token=None)
            return
        with ITEM_LOCK.hold(name.item) as token:
            failpoints.hit(failpoints.LOCKED)
            # Drain after locking: the batch then includes requests that arrived during the wait.
            self._sell(name, drain(), token)

    def _refuse_by_hint(
        self, item: int, tickets: Sequence[PurchaseTicket]
    ) -> Sequence[PurchaseTicket]:
        """Refuse the tickets that the hint, read after they queued, allows; return the others."""
        refusing = self._look(item)
        if refusing is None:
            return tickets
        others = []
        for ticket in tickets:
            # It is new enough for all of these: they queued before it was read.
            if ticket.request.buyer in refusing.buyers:
                others.append(ticket)
            else:
                ticket.answer = SoldOut(0)
        metrics.count("refused_by_hint", by=len(tickets) - len(others))
        return others

    def _look(self, item: int) -> Refusing | None:
        """Read an item's hint; None if it does not say sold out, or its buyers cannot be read."""
        seen = self._hint.look(item)
        if seen is None or seen.level.available > 0:
            self._ran_out.discard(item)
            self._refusing.pop(item, None)
            return None
        try:
            buyers = self._buyers.of(item, seen.level)
        except Error:
            return None
        if buyers is None:
            return None
        before = self._refusing.get(item)
        due = before.due if before else time.monotonic() + LOOK_AGAIN
        found = self._refusing[item] = Refusing(seen, buyers, due)
        return found

    def _sell(self, key: QueueKey, tickets: Sequence[PurchaseTicket], token: int | None) -> None:
        metrics.observe("batch_size", len(tickets))
        with hooks.batch(tickets):
            self._sell_or_split(key, tickets, token)

    def _sell_or_split(
        self, key: QueueKey, tickets: Sequence[PurchaseTicket], token: int | None
    ) -> None:
        """Sell a batch; if one row fails, split it until the other purchases are sold."""
        try:
            level = commit_with_retry(
                lambda fenced: self._sell_batch(tickets, key.on_granted, token if fenced else None)
            )
            self._committed(key.item, tickets, level)
            lend_connections()
        except (Busy, OutcomeUnknown, guard.NoSuchItem) as error:
            fail(tickets, error)
        except Declined as declined:
            self._sell_without(declined, key, tickets, token)
        except Exception as error:  # noqa: BLE001  # each buyer gets their own error
            if len(tickets) == 1:
                tickets[0].answer = error
                return
            metrics.count("batches_split")
            middle = len(tickets) // 2
            self._sell_or_split(key, tickets[:middle], token)
            self._sell_or_split(key, tickets[middle:], token)

    def _sell_batch(
        self, tickets: Sequence[PurchaseTicket], on_granted: OnGranted, token: int | None
    ) -> Level:
        return batch.sell(tickets, on_granted, token)

    def _sell_without(
        self,
        declined: Declined,
        key: QueueKey,
        tickets: Sequence[PurchaseTicket],
        token: int | None,
    ) -> None:
        """Sell to those whose scope was not declined; halving would try each alone.

        A key that was granted before is answered as ever: nothing is opened for it.
        """
        turned_away: list[PurchaseTicket] = []
        others: list[PurchaseTicket] = []
        for ticket in tickets:
            closed = ticket.request.scope in declined.scopes and not _is_known(ticket)
            (turned_away if closed else others).append(ticket)
        if not turned_away:
            raise AssertionError("declined, but none of these") from declined
        fail(turned_away, declined)
        if others:
            self._sell_or_split(key, others, token)

    def _committed(self, item: int, tickets: Sequence[PurchaseTicket], level: Level) -> None:
        """Note a committed batch before any buyer gets an answer."""
        self._note(item, level)

    def _note(self, item: int, level: Level) -> None:
        if level.available == 0:
            self._ran_out.add(item)
            self._hint.publish(item, level)


def _is_known(ticket: PurchaseTicket) -> bool:
    """Whether a decided ticket's key had been used before its batch, or twice in it."""
    answer = ticket.answer
    return isinstance(answer, KeyReused) or (isinstance(answer, Granted) and answer.replayed)
