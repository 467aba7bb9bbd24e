"""The interface of all strategies, and the base of those with one transaction per purchase."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import ClassVar

from django.contrib.postgres.functions import TransactionNow
from django.db import IntegrityError
from django.db.models import F

from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, LOCKED, hooks
from inventory.models import BuyerQuota, Reservation, StockMovement
from inventory.outcomes import (
    Cart,
    CartAnswer,
    Granted,
    LimitReached,
    LineRefused,
    NoSuchItem,
    OnGranted,
    Outcome,
    Purchase,
    SoldOut,
)
from inventory.selling import guard
from inventory.selling.commit import Attempts, committing
from inventory.selling.queue import count_purchase
from inventory.services import find


class Strategy(ABC):
    """A way of selling units of an item.

    Attributes:
        name: the name that sales refer to; its purchases have it as a label in `purchase_seconds`.
        safe: never oversells, whatever races and crashes; the others are for demonstrations.
        fenced: its writes carry the fencing token of the item's lock.
        summary: one line for the pages and the documentation.
    """

    name: ClassVar[str]
    safe: ClassVar[bool] = True
    fenced: ClassVar[bool] = False
    summary: ClassVar[str]

    @abstractmethod
    def sell(self, cart: Cart) -> CartAnswer:
        """Sell to one buyer, commit, and measure it; see `inventory.selling.queue.Seller.sell`.

        Only the default sells carts of more than one line.
        """


class _Refused(Exception):
    """Carries a refusal out of the transaction, which then rolls back."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class OnePerTransaction(Strategy):
    """Sells one purchase per transaction, and finds out what became of an attempt that raced."""

    def sell(self, cart: Cart) -> CartAnswer:  # noqa: D102
        [purchase] = cart.lines
        began = time.perf_counter()
        try:
            outcome = self._sell(purchase, cart.on_granted)
        except BaseException as error:
            count_purchase(self.name, began, error)
            raise
        count_purchase(self.name, began, outcome)
        return [outcome] if isinstance(outcome, Granted) else LineRefused(0, outcome)

    def _sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        attempts = Attempts()

        def attempt() -> Outcome:
            outcome = self._sell_or_find(purchase, on_granted)
            if attempts.locked and isinstance(outcome, SoldOut | LimitReached):
                # While this attempt waited for the row, the previous one may have committed after
                # all: refuse only if the key is still unknown.
                return find(purchase) or outcome
            return outcome

        return attempts.until_done(attempt)

    def _sell_or_find(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        try:
            return self._sell_once(purchase, on_granted)
        except IntegrityError:
            # Two requests with one key raced and the other one committed: answer like it.
            if (known := find(purchase)) is None:
                raise
            return known

    @abstractmethod
    def _sell_once(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        """Make one attempt, inside `committing`; safe to repeat."""


class SinglePurchase(OnePerTransaction):
    """Replay, take, count against the limit, reserve, open: one statement after the other."""

    def _sell_once(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        try:
            with committing():
                outcome = self._sell_in_transaction(purchase, on_granted)
                hooks.failpoint(BEFORE_COMMIT)
        except _Refused as refused:
            return refused.outcome
        except guard.OutOfStock as out:
            return SoldOut(out.available)
        hooks.failpoint(AFTER_COMMIT)
        return outcome

    def _sell_in_transaction(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        if (known := find(purchase)) is not None:
            return known
        self.take(purchase)
        hooks.failpoint(LOCKED)
        self._count(purchase)
        reservation = Reservation.objects.create(
            item_id=purchase.item,
            scope=purchase.scope,
            buyer=purchase.buyer,
            key=purchase.key,
            quantity=purchase.quantity,
            deadline=TransactionNow() + purchase.hold,
        )
        granted = Granted(purchase, reservation.pk)
        [granted.opened] = on_granted([granted])
        if granted.final:
            Reservation.objects.filter(pk=reservation.pk).update(state=Reservation.State.CONFIRMED)
        return granted

    @abstractmethod
    def take(self, purchase: Purchase) -> None:
        """Take the units from the item, inside the purchase's transaction.

        Raises:
            guard.OutOfStock: fewer are left.
        """

    @staticmethod
    def _count(purchase: Purchase) -> None:
        """Count against the limit by a guarded update, so that two requests cannot share it."""
        if purchase.quantity > purchase.limit:
            raise _Refused(LimitReached(purchase.limit))
        mine = BuyerQuota.objects.filter(scope=purchase.scope, buyer=purchase.buyer)
        BuyerQuota.objects.bulk_create(
            [
                BuyerQuota(
                    scope=purchase.scope, buyer=purchase.buyer, used=0, allowed=purchase.limit
                )
            ],
            ignore_conflicts=True,
        )
        counted = mine.filter(used__lte=purchase.limit - purchase.quantity).update(
            used=F("used") + purchase.quantity, allowed=purchase.limit
        )
        if not counted:
            used = mine.values_list("used", flat=True).get()
            raise _Refused(LimitReached(max(purchase.limit - used, 0)))


def refuse_if_short(purchase: Purchase, available: int | None) -> None:
    """Compare what was read with what is wanted.

    Raises:
        NoSuchItem: nothing was read.
        guard.OutOfStock: fewer units are left.
    """
    if available is None:
        raise NoSuchItem(purchase.item)
    if available < purchase.quantity:
        raise guard.OutOfStock(available)


def write_sale(purchase: Purchase) -> None:
    """Add the sale to the item's ledger, which the guard does by itself."""
    StockMovement.objects.create(
        item_id=purchase.item, delta=-purchase.quantity, reason=StockMovement.Reason.SALE
    )
