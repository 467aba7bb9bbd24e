"""The app's interface: reserve (one item or several together), confirm, release, restock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from inventory.models import BuyerQuota, Item, Reservation, StockMovement
from inventory.outcomes import Level, OnGranted, Outcome, Purchase
from inventory.selling import guard
from inventory.selling.measured import measured
from inventory.selling.replay import find
from inventory.selling.reserve_many import reserve_many
from inventory.selling.strategies import DEFAULT, strategy
from inventory.sold_out.hint import hint

State = Reservation.State
RECLAIM = StockMovement.Reason.RECLAIM


def reserve(purchase: Purchase, on_granted: OnGranted, *, by: str = DEFAULT) -> Outcome:
    """Reserve units for a buyer, and commit.

    Args:
        purchase: the request.
        on_granted: opens what the shop needs (its order), in the transaction that reserves.
            Pass the same function object each time: only purchases with the same function are
            combined.
        by: name of the strategy.

    Returns:
        Granted, SoldOut, LimitReached or KeyReused.

    Raises:
        Busy: overload, or the database is unreachable; nothing was written.
        OutcomeUnknown: it may have been sold; a retry with the same key gets the result.
        guard.NoSuchItem: no such item.
        Exception: any exception of ``on_granted``; nothing was written for this purchase.
    """
    seller = strategy(by)
    return measured(by, lambda: seller.sell(purchase, on_granted), lambda outcome: outcome)


def stock(name: str, units: int) -> Item:
    """Create an item with that many units in stock."""
    with transaction.atomic():
        item = Item.objects.create(name=name, total=0, available=0)
        if units:
            guard.restock(item.pk, units)
    item.refresh_from_db()
    return item


def restock(item: int, units: int) -> Level:
    """Add units to an item. After it returns, no process refuses on an older hint.

    Raises:
        guard.NoSuchItem: no such item.
    """
    with transaction.atomic():
        level = guard.restock(item, units)
        hint().announce(item, level)
    hint().publish_with_retry(item, level)
    return level


def confirm(reservation: int, *, late: bool = False) -> bool:
    """Make a held reservation final. Must run in the caller's transaction.

    Args:
        reservation: its id.
        late: also after its deadline, unless it was released.

    Returns:
        False if it is no longer held, or its deadline has passed by the database's clock.
    """
    _require_transaction()
    held = Reservation.objects.filter(pk=reservation, state=State.HELD)
    if not late:
        held = held.filter(deadline__gt=Now())
    return held.update(state=State.CONFIRMED) == 1


class OutOfReach(Exception):
    """Released units cannot be reclaimed: they are sold, or the buyer has reached the limit."""


def reclaim(reservations: Iterable[int]) -> None:
    """Take the units of released reservations again and confirm them; all or none.

    For a payment that arrives after the reservations expired. The guard and the buyer's limit
    apply as for any purchase. Runs in the caller's transaction, which must roll back on an
    exception.

    Raises:
        OutOfReach: too few units are left, the buyer is at the limit, or one is not released.
    """
    _require_transaction()
    wanted = set(reservations)
    released = Reservation.objects.filter(pk__in=wanted, state=State.RELEASED)
    _lock_items(released)
    fields = ("pk", "item", "buyer", "scope", F("quantity") - F("returned"))
    found = list(released.select_for_update(no_key=True).order_by("pk").values_list(*fields))
    if len(found) < len(wanted):
        raise OutOfReach
    units: dict[int, int] = defaultdict(int)
    for _, item, buyer, scope, quantity in found:
        units[item] += quantity
        _count(scope, buyer, quantity)
    try:
        levels = {item: guard.take(item, units[item], reason=RECLAIM) for item in sorted(units)}
    except guard.OutOfStock as error:
        raise OutOfReach from error
    released.update(state=State.CONFIRMED)
    transaction.on_commit(lambda: _hint(levels))


def _count(scope: int, buyer: int, units: int) -> None:
    quota = BuyerQuota.objects.filter(scope=scope, buyer=buyer, used__lte=F("allowed") - units)
    if not quota.update(used=F("used") + units):
        raise OutOfReach


@dataclass(frozen=True, slots=True)
class Released:
    """A reservation that was fully or partly released.

    Attributes:
        quantity: units that were released.
    """

    reservation: int
    item: int
    buyer: int
    quantity: int


OnReleased = Callable[[Sequence[Released]], None]
"""Runs inside the releasing transaction; an exception rolls the release back."""


def release(
    reservations: Iterable[int],
    on_released: OnReleased,
    *,
    was: State = State.HELD,
    only_due: bool = False,
    units: int | None = None,
    written_off: Collection[int] = (),
) -> list[Released]:
    """Release reservations and return their units, each exactly once however often called.

    Locks the items, then the reservations, each in order of id; ``on_released`` locks the
    caller's rows last.

    Args:
        reservations: ids.
        on_released: updates the shop's rows for the released ones, in the same transaction.
        was: the required state; others are left alone.
        only_due: skip reservations whose deadline has not passed, by the database's clock.
        units: release only this many of each; reservations with fewer are left alone. A
            repeated call releases again, which ``on_released`` must prevent.
        written_off: ids of those whose units leave the total instead of being sold again.

    Returns:
        The reservations that this call released.
    """
    wanted = list(reservations)
    with transaction.atomic():
        released = _release_rows(wanted, was, only_due, units)
        levels = _put_back(released, frozenset(written_off))
        if released:
            on_released(released)
        for item, level in levels.items():
            hint().announce(item, level)
    # Publish before answering, so that no buyer is refused on an older hint.
    transaction.on_commit(lambda: _publish(levels))
    return released


def expire(on_released: OnReleased, *, most: int = 500) -> int:
    """Release held reservations whose deadline has passed.

    Args:
        on_released: as for :func:`release`.
        most: how many per transaction.

    Returns:
        How many were released; ``most`` means that more may be due.
    """
    ids = due(most)
    return len(release(ids, on_released, only_due=True)) if ids else 0


def may_come_back(item: int) -> bool:
    """Whether units of an item are held without confirmation: they may become available again."""
    return Reservation.objects.filter(item=item, state=State.HELD).exists()


def due(most: int = 500) -> list[int]:
    """Return held reservations past their deadline by the database's clock, oldest first."""
    found = Reservation.objects.filter(state=State.HELD, deadline__lte=Now()).order_by("deadline")
    return list(found.values_list("pk", flat=True)[:most])


def due_of(reservations: Iterable[int]) -> list[int]:
    """Return those of these reservations that are held past their deadline."""
    found = Reservation.objects.filter(pk__in=list(reservations), state=State.HELD)
    return list(found.filter(deadline__lte=Now()).values_list("pk", flat=True))


def _release_rows(
    reservations: Sequence[int], was: State, only_due: bool, units: int | None
) -> list[Released]:
    candidates = Reservation.objects.filter(pk__in=reservations, state=was)
    if only_due:
        candidates = candidates.filter(deadline__lte=Now())
    _lock_items(candidates)
    rows = candidates.select_for_update(no_key=True).order_by("pk")
    fields = ("pk", "item", "buyer", F("quantity") - F("returned"), "scope")
    found = [row for row in rows.values_list(*fields) if units is None or row[3] >= units]
    whole = [row[0] for row in found if units is None or row[3] == units]
    parts = [row[0] for row in found if units is not None and row[3] > units]
    moved = candidates.filter(pk__in=whole).update(state=State.RELEASED)
    moved += candidates.filter(pk__in=parts).update(returned=F("returned") + units)
    assert moved == len(found), "rows that this transaction has locked cannot change"
    _give_back((scope, buyer, units or live) for _, _, buyer, live, scope in found)
    return [Released(pk, item, buyer, units or live) for pk, item, buyer, live, _ in found]


GIVE_BACK = """
UPDATE inventory_buyerquota AS quota SET used = quota.used - given.units
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS given (scope, buyer, units)
WHERE quota.scope = given.scope AND quota.buyer = given.buyer
"""


def _give_back(units: Iterable[tuple[int, int, int]]) -> None:
    """Reduce buyers' used quotas by (scope, buyer, units)."""
    given: Counter[tuple[int, int]] = Counter()  # an UPDATE changes each row once
    for scope, buyer, number in units:
        given[scope, buyer] += number
    if given:
        scopes, buyers = zip(*given, strict=True)
        with transaction.get_connection().cursor() as cursor:
            cursor.execute(GIVE_BACK, [list(scopes), list(buyers), list(given.values())])


def _lock_items(reservations: QuerySet[Reservation]) -> None:
    # Items first, in order of id: every transaction that needs several locks does so, which
    # rules out deadlocks.
    items = set(reservations.values_list("item", flat=True))
    list(Item.objects.select_for_update(no_key=True).filter(pk__in=items).order_by("pk"))


def _put_back(released: Iterable[Released], written_off: Container[int]) -> dict[int, Level]:
    back: dict[int, int] = defaultdict(int)
    gone: dict[int, int] = defaultdict(int)
    for each in released:
        (gone if each.reservation in written_off else back)[each.item] += each.quantity
    for item in sorted(gone):
        guard.write_off(item, gone[item])
    return {item: guard.put_back(item, back[item]) for item in sorted(back)}


def _publish(levels: dict[int, Level]) -> None:
    # With retries: on an older hint a buyer would be refused while units are available, and a
    # repeat of a purchase just made would be answered "sold out".
    for item, level in levels.items():
        hint().publish_with_retry(item, level)


def _hint(levels: dict[int, Level]) -> None:
    for item, level in levels.items():
        hint().publish(item, level)


def _require_transaction() -> None:
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("this runs in its caller's transaction")


__all__ = [
    "OnReleased",
    "OutOfReach",
    "Released",
    "confirm",
    "due",
    "due_of",
    "expire",
    "find",
    "may_come_back",
    "reclaim",
    "release",
    "reserve",
    "reserve_many",
    "restock",
    "stock",
]
