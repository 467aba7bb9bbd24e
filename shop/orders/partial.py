"""Return or cancel a part of an order: some units of a line, under the buyer's key.

A whole order can be returned only once, so a repeated request is harmless. Two parts may be equal:
only the key distinguishes a repeated request from a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError

from inventory.models import Reservation
from inventory.services import Released
from shop.orders.models import Order, OrderEvent, OrderLine


@dataclass(frozen=True, slots=True)
class Part:
    """The units that a buyer returns or cancels.

    Attributes:
        quantity: units.
        key: idempotency key.
        sale: selects the line; None if the order has only one.
    """

    quantity: int
    key: UUID
    sale: int | None = None


class NoSuchPart(Exception):
    """The order has no such line, or the line has fewer units."""


class KeyReused(Exception):
    """The key belongs to another part of this order."""


GiveBack = Callable[[Order, OrderLine, int, UUID], bool]
"""Gives units of a line back and writes the event with the key, in one transaction; returns False
if the line has too few units in the required state."""


def once(order: Order, part: Part, kind: OrderEvent.Kind, give_back: GiveBack) -> None:
    """Return a part, unless that was done under its key before.

    Raises:
        NoSuchPart: there is no such line, or it has fewer units.
        KeyReused: the key belongs to another part.
        WrongState: the order's state does not allow it.
    """
    line = _line(order, part)
    if _done(order, part, kind, line):
        return
    try:
        given = give_back(order, line, part.quantity, part.key)
    except IntegrityError:
        # Two requests with one key raced and the other one committed.
        if not _done(order, part, kind, line):
            raise
        return
    if not given and not _done(order, part, kind, line):
        raise NoSuchPart


def written_off(lines: Iterable[OrderLine], rule: str) -> list[int]:
    """Return the reservations whose units their sale writes off by this rule."""
    return [line.pk for line in lines if not getattr(line.sale, rule)]


def has_left(order: Order, released: Sequence[Released], state: Reservation.State) -> bool:
    """Whether an order keeps units when these are released; its row must be locked.

    Args:
        order: the order.
        released: what this transaction is about to release.
        state: of the reservations that count.
    """
    if any(each.kept for each in released):
        return True
    others = Reservation.objects.filter(orderline__order=order, state=state)
    return others.exclude(pk__in=[each.reservation for each in released]).exists()


def _line(order: Order, part: Part) -> OrderLine:
    lines = order.lines.select_related("sale")
    if part.sale is not None:
        lines = lines.filter(sale=part.sale)
    found = list(lines[:2])
    if len(found) != 1:
        raise NoSuchPart
    return found[0]


def _done(order: Order, part: Part, kind: OrderEvent.Kind, line: OrderLine) -> bool:
    event = OrderEvent.objects.filter(order=order, key=part.key).first()
    if event is None:
        return False
    if (event.kind, event.line_id, event.quantity) != (kind, line.pk, part.quantity):
        raise KeyReused
    return True
