"""Ways of selling by the transaction of `inventory`: in batches, one by one, and unguarded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, cast

from django.db import transaction

from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, hooks
from inventory.models import BuyerQuota, Item
from inventory.outcomes import (
    Level,
    LimitReached,
    NoSuchItem,
    OnGranted,
    Outcome,
    Purchase,
    PurchaseTicket,
    SoldOut,
)
from inventory.selling import batch
from inventory.selling.commit import ConditionFailed, committing, execute_and_commit
from inventory.selling.queue import Turn
from inventory.selling.seller import QueueKey, Seller
from lab.strategies.single import OnePerTransaction, Strategy


class Combining(Seller, Strategy):
    """The seller of `inventory`, which sells where there is no lab."""

    fenced = True
    summary = "requests combined per process, one guarded transaction for the batch"


class Guard(OnePerTransaction):
    """The conditional update with the hot row last, committed in the same message."""

    name = "guard"
    summary = "conditional UPDATE, one transaction each"

    def _sell_once(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        ticket: PurchaseTicket = PurchaseTicket(purchase)
        try:
            with committing():
                [seen] = batch.look([ticket])
                if seen.granted:
                    batch.open_and_commit(seen.granted, on_granted)
        except ConditionFailed:
            return _why_refused(purchase)
        if seen.granted:
            hooks.failpoint(AFTER_COMMIT)
        return cast("Outcome", ticket.answer)


def _why_refused(purchase: Purchase) -> SoldOut | LimitReached:
    """Say which condition failed, in the order in which a batch asks.

    Raises:
        ConditionFailed: neither fails any more; try again.
        NoSuchItem: there is no such item.
    """
    with transaction.atomic():
        mine = BuyerQuota.objects.filter(scope=purchase.scope, buyer=purchase.buyer)
        left = max(purchase.limit - (mine.values_list("used", flat=True).first() or 0), 0)
        available = (
            Item.objects.filter(pk=purchase.item).values_list("available", flat=True).first()
        )
    if available is None:
        raise NoSuchItem(purchase.item)
    if purchase.quantity > left:
        return LimitReached(left)
    if purchase.quantity > available:
        return SoldOut(available)
    raise ConditionFailed("units or quota came back meanwhile")


TAKE: LiteralString = """
WITH changed AS (
    UPDATE inventory_item SET available = %(left)s::bigint, version = version + 1
    WHERE id = ANY(%(items)s)
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, -%(sold)s::bigint, 'sale' FROM changed
), unenforced AS (
    INSERT INTO lab_unenforceditem (item_id) SELECT id FROM changed ON CONFLICT DO NOTHING
)
SELECT array_agg(id), array_agg(available), array_agg(version), NULL FROM changed
"""


def sell_unguarded(
    tickets: Sequence[PurchaseTicket],
    on_granted: OnGranted,
    token: int | None = None,
    *,
    locked: bool = False,
) -> dict[int, Level]:
    """Decide on data read without a lock, and overwrite the current value."""
    with committing():
        [seen] = batch.look(tickets, token)
        levels = {seen.item: seen.level}
        if seen.granted:
            for grant, opened in zip(seen.granted, on_granted(seen.granted), strict=True):
                grant.opened = opened
            hooks.failpoint(BEFORE_COMMIT)
            [(_, take), reserve] = batch.taking(seen.granted, token)
            sold = seen.decision.units
            overwrite = {**take, "left": seen.level.available - sold, "sold": sold}
            with execute_and_commit([(TAKE, overwrite), reserve]) as cursor:
                levels = batch.levels_of(cursor, 2)
    seen.decision.answer_repeats()
    return levels


class UnguardedCombining(Combining):
    """`combining` without its guard, for the negative control that turns it off.

    It writes back the number that it read minus the units sold, as in a shop that combines
    purchases and trusts its lock.
    """

    summary = "requests combined per process, without the guard: oversells without the lock"
    sell_batch = staticmethod(sell_unguarded)

    def _serve(self, key: QueueKey, turn: Turn[Purchase, Outcome]) -> None:
        self._sell_locked(key, turn, ())
