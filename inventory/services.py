"""What a shop calls: reserve, confirm, release, restock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from inventory import guard
from inventory.models import BuyerQuota, Item, Reservation
from inventory.outcomes import OnGranted, Outcome, Purchase
from inventory.redis import hint
from inventory.replay import find
from inventory.strategies import DEFAULT, strategy

State = Reservation.State


def reserve(purchase: Purchase, on_granted: OnGranted, *, by: str = DEFAULT) -> Outcome:
    """Reserve units for a buyer, and commit.

    Args:
        purchase: who wants how many of what.
        on_granted: opens what the shop needs (its order), in the transaction that reserves.
            Give the same function object each time: purchases of different functions are not
            combined.
        by: name of the strategy.

    Returns:
        Granted, SoldOut, LimitReached or KeyReused.

    Raises:
        Busy: too much load, or no database; nothing was written.
        OutcomeUnknown: it may have been sold; the same key later gets the truth.
        guard.NoSuchItem: no such item.
        Exception: what ``on_granted`` raised; nothing was written for this purchase.
    """
    return strategy(by).sell(purchase, on_granted)


def stock(name: str, units: int) -> Item:
    """Create an item with that many units in stock."""
    with transaction.atomic():
        item = Item.objects.create(name=name, total=0, available=0)
        if units:
            guard.restock(item.pk, units)
    item.refresh_from_db()
    return item


def restock(item: int, units: int) -> guard.Level:
    """Add units to an item. When this returns, no process refuses on an older hint.

    Raises:
        guard.NoSuchItem: no such item.
    """
    with transaction.atomic():
        level = guard.restock(item, units)
    hint().publish_surely(item, level)
    return level


def confirm(reservation: int) -> bool:
    """Make a held reservation final. Must run in the caller's transaction.

    Returns:
        False if it is not held any more, or its deadline has passed, by the database's clock.
    """
    _require_transaction()
    held = Reservation.objects.filter(pk=reservation, state=State.HELD, deadline__gt=Now())
    return held.update(state=State.CONFIRMED) == 1


@dataclass(frozen=True, slots=True)
class Released:
    """A reservation whose units are available again."""

    reservation: int
    item: int
    buyer: int
    quantity: int


OnReleased = Callable[[Sequence[Released]], None]
"""Runs inside the transaction that releases; what it raises rolls the release back."""


def release(
    reservations: Iterable[int],
    on_released: OnReleased,
    *,
    was: State = State.HELD,
    only_due: bool = False,
) -> list[Released]:
    """Put the units of reservations back, each exactly once however often this is asked.

    Args:
        reservations: ids.
        on_released: what the shop does about those that were released, in the same transaction.
        was: the state they must be in; others are left alone.
        only_due: leave alone those whose deadline has not passed, by the database's clock.

    Returns:
        Those that this call released.
    """
    wanted = list(reservations)
    with transaction.atomic():
        released = _release_rows(wanted, was, only_due)
        levels = _put_back(released)
        if released:
            on_released(released)
    # Before anybody is told, so that nobody is refused on a hint from before.
    transaction.on_commit(lambda: _publish(levels))
    return released


def expire(on_released: OnReleased, *, most: int = 500) -> int:
    """Release held reservations whose deadline has passed.

    Args:
        on_released: as for :func:`release`.
        most: how many in one transaction.

    Returns:
        How many were released; ``most`` means that there may be more.
    """
    due = Reservation.objects.filter(state=State.HELD, deadline__lte=Now()).order_by("deadline")
    ids = list(due.values_list("pk", flat=True)[:most])
    return len(release(ids, on_released, only_due=True)) if ids else 0


def may_come_back(item: int) -> bool:
    """Whether units of an item are held that nobody has confirmed: they may be available again."""
    return Reservation.objects.filter(item=item, state=State.HELD).exists()


def _release_rows(reservations: Sequence[int], was: State, only_due: bool) -> list[Released]:
    candidates = Reservation.objects.filter(pk__in=reservations, state=was)
    if only_due:
        candidates = candidates.filter(deadline__lte=Now())
    items = set(candidates.values_list("item", flat=True))
    # Items first and in one order: every transaction that touches several locks them so, and
    # therefore none can wait in a circle.
    list(Item.objects.select_for_update(no_key=True).filter(pk__in=items).order_by("pk"))
    rows = candidates.select_for_update(no_key=True).order_by("pk")
    found = list(rows.values_list("pk", "item", "buyer", "quantity", "scope"))
    moved = candidates.filter(pk__in=[row[0] for row in found]).update(state=State.RELEASED)
    assert moved == len(found), "rows that this transaction has locked cannot change"
    for _, _, buyer, quantity, scope in found:
        BuyerQuota.objects.filter(scope=scope, buyer=buyer).update(used=F("used") - quantity)
    return [Released(*row[:4]) for row in found]


def _put_back(released: Iterable[Released]) -> dict[int, guard.Level]:
    units: dict[int, int] = defaultdict(int)
    for each in released:
        units[each.item] += each.quantity
    return {item: guard.put_back(item, units[item]) for item in sorted(units)}


def _publish(levels: dict[int, guard.Level]) -> None:
    # Surely: on an older hint a buyer would be refused while units are there, and one who gets
    # such a unit and asks again would be told that it was sold out.
    for item, level in levels.items():
        hint().publish_surely(item, level)


def _require_transaction() -> None:
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("this runs in its caller's transaction")


__all__ = [
    "OnReleased",
    "Released",
    "confirm",
    "expire",
    "find",
    "may_come_back",
    "release",
    "reserve",
    "restock",
    "stock",
]
