"""Return or cancel a part of an order: some units of a line, under the buyer's key.

A whole order can be returned only once, so a repeated request is harmless. Two parts may be equal:
only the key distinguishes a repeated request from a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from inventory.models import Reservation
from inventory.services import Released
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.orders.transitions import note
from shop.refusals import Refusal


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


def line_of(order: Order, part: Part) -> OrderLine:
    """Return the line that a part belongs to.

    Raises:
        Refusal: there is none, or the part does not say which.
    """
    lines = order.lines.select_related("sale")
    if part.sale is not None:
        lines = lines.filter(sale=part.sale)
    found = list(lines[:2])
    if len(found) != 1:
        raise Refusal("invalid_quantity")
    return found[0]


def was_given_back(part: Part, kind: OrderEvent.Kind, line: OrderLine) -> bool:
    """Whether a part was given back under its key before; the order's row must be locked.

    Raises:
        Refusal: the key belongs to another part.
    """
    event = OrderEvent.objects.filter(order=line.order_id, key=part.key).first()
    if event is None:
        return False
    if (event.kind, event.line_id, event.quantity) != (kind, line.pk, part.quantity):
        raise Refusal("idempotency_key_reused")
    return True


def note_part(order: int, kind: OrderEvent.Kind, part: Part, line: OrderLine) -> None:
    """Record that a part was given back, under its key."""
    worth = line.price * part.quantity
    note(order, kind, amount=worth, quantity=part.quantity, line=line.pk, key=part.key)


def keeps_units(order: Order, released: Sequence[Released], state: Reservation.State) -> bool:
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
