"""The app's interface: reserve (one item or several together), hold, confirm, release, restock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from inventory.models import BuyerQuota, Item, Reservation, ReservationQuota, StockMovement
from inventory.outcomes import Granted, KeyReused, Level, NotReserved, Purchase
from inventory.release import Released, releasing
from inventory.selling import guard
from inventory.selling.batch import reserve_inside
from inventory.selling.hint import end_hints
from inventory.selling.queue import reserve, reserve_in_order, reserve_many
from inventory.selling.rules import Known

State = Reservation.State
RECLAIM = StockMovement.Reason.RECLAIM


def find(purchase: Purchase) -> Granted | KeyReused | None:
    """Return the earlier answer to a purchase's key; None if the key is new."""
    known = Reservation.objects.filter(buyer=purchase.buyer, key=purchase.key)
    row = known.values_list("pk", "item", "scope", "quantity").first()
    return Known(*row).answer(purchase) if row else None


def stock(name: str, units: int) -> Item:
    """Create an item with that many units in stock."""
    with transaction.atomic():
        item = Item.objects.create(name=name, total=0, available=0)
        if units:
            guard.restock(item.pk, units)
    item.refresh_from_db()
    return item


def restock(item: int, units: int, note: str = "") -> Level:
    """Add units to an item. Once they can be seen, no process refuses by an older hint.

    Args:
        item: its id.
        units: how many.
        note: kept in the ledger.

    Raises:
        NoSuchItem: no such item.
    """
    with transaction.atomic():
        level = guard.restock(item, units, note)
        if level.available <= units:
            end_hints([item])
    return level


def write_off(item: int, units: int, note: str = "") -> Level:
    """Remove unsold units from an item.

    Args:
        item: its id.
        units: how many.
        note: kept in the ledger.

    Raises:
        guard.OutOfStock: fewer are available.
        NoSuchItem: no such item.
    """
    with transaction.atomic():
        return guard.remove(item, units, note)


class TotalChanged(Exception):
    """An item's total has changed since the operator who corrects it has seen it.

    Attributes:
        total: the present one.
    """

    def __init__(self, total: int) -> None:
        super().__init__(f"the total is {total}")
        self.total = total


def correct(item: int, units: int, note: str, *, seen: int) -> Level:
    """Add units to an item or remove unsold ones, if its total is still the one that was seen.

    So a correction that is sent twice, or by two operators, happens once.

    Args:
        item: its id.
        units: how many more, or less than 0.
        note: who corrects it and why; kept in the ledger.
        seen: the total that the correction starts from.

    Raises:
        TotalChanged: it has another total by now.
        guard.OutOfStock: fewer are available than are to be removed.
        NoSuchItem: no such item.
    """
    with transaction.atomic():
        rows = Item.objects.select_for_update(no_key=True).filter(pk=item)
        total = rows.values_list("total", flat=True).first()
        if total is not None and total != seen:
            raise TotalChanged(total)
        return restock(item, units, note) if units > 0 else write_off(item, -units, note)


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


def hold_until(reservations: Iterable[int], until: datetime | None) -> datetime | None:
    """Hold reservations longer, of one buyer and with one deadline; never shorter.

    Runs in the caller's transaction, and locks the reservations. Only a hold that has not ended by
    the database's clock is prolonged.

    Args:
        reservations: ids; those that are not held are left alone.
        until: the new deadline, if it is later than theirs; None to only look.

    Returns:
        Their deadline now; None if none is held any more.
    """
    _require_transaction()
    wanted = Reservation.objects.filter(pk__in=list(reservations), state=State.HELD)
    held = wanted.filter(deadline__gt=Now()).select_for_update(no_key=True).order_by("pk")
    deadlines = dict(held.values_list("pk", "deadline"))
    if not deadlines:
        return None
    deadline = max(deadlines.values())
    if until is not None and until > deadline:
        deadline = until
        Reservation.objects.filter(pk__in=deadlines).update(deadline=deadline)
    return deadline


class NotReclaimable(Exception):
    """Released units cannot be reclaimed: they are sold, or the buyer has reached the limit."""


@contextmanager
def reclaiming(
    reservations: Iterable[int],
    limits: Mapping[int, int] | None = None,
    *,
    until: datetime | None = None,
) -> Iterator[None]:
    """Take the units of released reservations again and confirm or hold them; all or none.

    For a payment that arrives after the reservations expired, and for a second hold. The guard, the
    limit of the buyer and the further quotas apply as for any purchase. Runs in the caller's
    transaction, which must roll back on an exception. The block updates the shop's rows; the items
    are locked after it.

    Args:
        reservations: ids.
        limits: units that the buyer may hold by scope; where there is none, the limit of the
            buyer's last purchase.
        until: hold them until then, instead of confirming them.

    Raises:
        NotReclaimable: too few units are left, the buyer is at the limit, or one is not released.
    """
    _require_transaction()
    wanted = set(reservations)
    released = Reservation.objects.filter(pk__in=wanted, state=State.RELEASED)
    fields = ("pk", "item", "buyer", "scope", F("quantity") - F("returned"))
    found = list(released.select_for_update(no_key=True).order_by("pk").values_list(*fields))
    if len(found) < len(wanted):
        raise NotReclaimable
    yield
    units: Counter[int] = Counter()
    counted: Counter[tuple[int, int]] = Counter()
    live = {}
    for reservation, item, buyer, scope, quantity in found:
        units[item] += quantity
        counted[scope, buyer] += quantity
        live[reservation] = quantity
    further = ReservationQuota.objects.filter(reservation__in=wanted)
    for reservation, scope, subject in further.values_list("reservation", "scope", "subject"):
        counted[scope, subject] += live[reservation]
    try:
        for item in sorted(units):
            guard.take(item, units[item], RECLAIM)
    except guard.OutOfStock as error:
        raise NotReclaimable from error
    for (scope, subject), quantity in sorted(counted.items()):
        _count(scope, subject, quantity, (limits or {}).get(scope, F("allowed")))
    if until is None:
        released.update(state=State.CONFIRMED)
    else:
        released.update(state=State.HELD, deadline=until)


def _count(scope: int, subject: int, units: int, allowed: int | F) -> None:
    quota = BuyerQuota.objects.filter(scope=scope, buyer=subject, used__lte=allowed - units)
    if not quota.update(used=F("used") + units, allowed=allowed):
        raise NotReclaimable


def may_come_back(item: int) -> bool:
    """Whether units of an item are held without confirmation: they may become available again."""
    return Reservation.objects.filter(item=item, state=State.HELD).exists()


def due(limit: int = 500) -> list[int]:
    """Return held reservations past their deadline by the database's clock, oldest first."""
    found = Reservation.objects.filter(state=State.HELD, deadline__lte=Now()).order_by("deadline")
    return list(found.values_list("pk", flat=True)[:limit])


def due_of(reservations: Iterable[int]) -> list[int]:
    """Return those of these reservations that are held past their deadline."""
    found = Reservation.objects.filter(pk__in=list(reservations), state=State.HELD)
    return list(found.filter(deadline__lte=Now()).values_list("pk", flat=True))


def _require_transaction() -> None:
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("this runs in its caller's transaction")


__all__ = [
    "NotReclaimable",
    "NotReserved",
    "Released",
    "TotalChanged",
    "confirm",
    "correct",
    "due",
    "due_of",
    "find",
    "hold_until",
    "may_come_back",
    "reclaiming",
    "releasing",
    "reserve",
    "reserve_in_order",
    "reserve_inside",
    "reserve_many",
    "restock",
    "stock",
    "write_off",
]
