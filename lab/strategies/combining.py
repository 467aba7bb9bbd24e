"""Ways of selling by the transaction of `inventory`: in batches, one by one, and unguarded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import LiteralString

from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, LOCKED, hooks
from inventory.models import BuyerQuota, Item
from inventory.outcomes import (
    Cart,
    CartAnswer,
    CartTicket,
    Level,
    LimitReached,
    NoSuchItem,
    OnGranted,
    Outcome,
    Purchase,
    SoldOut,
)
from inventory.redis import DegradableLock
from inventory.selling import batch
from inventory.selling.commit import ConditionFailed, committing, execute_and_commit
from inventory.selling.hint import SoldOutItems
from inventory.selling.queue import Seller, Turn, only_outcome
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
        ticket = CartTicket(Cart((purchase,), on_granted))
        try:
            with committing():
                decision, _ = batch.look([ticket])
                if decision.granted:
                    batch.open_and_commit(decision.granted)
        except ConditionFailed:
            return _why_refused(purchase)
        if decision.granted:
            hooks.failpoint(AFTER_COMMIT)
        answer = ticket.answer
        if isinstance(answer, BaseException):
            raise answer
        assert answer is not None
        return only_outcome(answer)


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
    tickets: Sequence[CartTicket], token: int | None = None, *, locked: bool = False
) -> dict[int, Level]:
    """Decide on data read without a lock, and overwrite the current value of the only item."""
    with committing():
        decision, levels = batch.look(tickets, token)
        if decision.granted:
            granted = batch.open_granted(decision.granted)
            hooks.failpoint(BEFORE_COMMIT)
            [(_, take), reserve] = batch.taking(granted, token)
            [level] = levels.values()
            sold = sum(grant.purchase.quantity for grant in granted)
            overwrite = {**take, "left": level.available - sold, "sold": sold}
            with execute_and_commit([(TAKE, overwrite), reserve]) as cursor:
                levels = batch.levels_of(cursor, 2)
    decision.answer_repeats()
    return levels


class UnguardedCombining(Combining):
    """`combining` without its guard, for the negative control that turns it off.

    It writes back the number that it read minus the units sold, as in a shop that combines
    purchases and trusts its lock.
    """

    summary = "requests combined per process, without the guard: oversells without the lock"
    few = 0  # it sells one item at a time
    sell_batch = staticmethod(sell_unguarded)

    def _serve(self, items: tuple[int, ...], turn: Turn[Cart, CartAnswer]) -> None:
        with self.lock.hold(items[0]) as token:
            hooks.failpoint(LOCKED)
            self._sell(turn.drain(), token)


class NoLock(DegradableLock):
    """No lock: a caller goes on without."""

    def __init__(self) -> None:
        super().__init__("none", lease=1.0, timeout=1.0)

    @contextmanager
    def hold(self, of: int) -> Iterator[None]:
        """Hold nothing."""
        yield


class NoHints(SoldOutItems):
    """Remembers no item that has sold out, so that the database answers every purchase."""

    def ran_out(self, item: int) -> None:
        """Forget it at once."""


def without(safeguards: Collection[str]) -> type[Combining]:
    """Return `combining` without some of its safeguards: `admission`, `lock`, `guard`.

    Raises:
        ImproperlyConfigured: there is no such safeguard.
    """
    if unknown := set(safeguards) - {"admission", "lock", "guard"}:
        raise ImproperlyConfigured(f"LAB_WITHOUT: there is no safeguard {sorted(unknown)}")
    kind = UnguardedCombining if "guard" in safeguards else Combining
    parts: dict[str, object] = {"__doc__": kind.__doc__}
    if "lock" in safeguards:
        parts["lock"] = NoLock()
    if "admission" in safeguards:
        parts["hints"] = NoHints
    return type(kind.__name__, (kind,), parts)
