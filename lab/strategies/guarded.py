"""``guard``: the conditional update, one transaction per purchase, with the hot row last."""

from __future__ import annotations

from typing import cast

from django.db import transaction

from inventory.hooks import AFTER_COMMIT, hooks
from inventory.models import BuyerQuota, Item
from inventory.outcomes import (
    LimitReached,
    NoSuchItem,
    OnGranted,
    Outcome,
    Purchase,
    PurchaseTicket,
    SoldOut,
)
from inventory.selling import batch
from inventory.selling.commit import ConditionFailed, committing
from lab.strategies.single import OnePerTransaction


class Guard(OnePerTransaction):
    """Decrement only where enough is left, and commit in the same message."""

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
