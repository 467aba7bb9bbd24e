"""Sell a few purchases each of several items in one transaction, without the items' locks.

A transaction has a price however little it sells. Where a process sells many items of which none
has a long queue, a transaction per item would cost each buyer most of that price. It is correct for
the same reason as a cart: the message that commits takes the units, by the guard's condition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from inventory import conf
from inventory.hooks import hooks
from inventory.metrics import metrics
from inventory.outcomes import OnGranted, PurchaseTicket
from inventory.postgresql.base import lend_connections
from inventory.selling import batch
from inventory.selling.commit import CommitUnknown
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
                    self._sold_out.note(item, level)
        finally:
            lend_connections()
        for each in items:
            unsold = [ticket for ticket in each.request if ticket.answer is None]
            each.answer = Unsold(unsold, unknown)
