"""What is given back of an order: all of it, or some units of a line.

Cancelling what is unpaid (`shop.orders.cancellation`) and returning what is paid
(`shop.payments.refunding`) go the same way here and differ in their end, which is a `GivingBack`.

A whole order can be given back only once, so a repeated request is harmless. Two parts may be
equal: only the buyer's key distinguishes a repeated request from a new one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from inventory import services
from inventory.models import Reservation
from inventory.services import Released
from shop.catalogue.models import Sale
from shop.orders.models import Order, OrderEvent, OrderLine, Status
from shop.orders.transitions import WrongState, lock, note
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


class GivingBack(ABC):
    """How an order is given back, and what follows from it.

    Attributes:
        was: the state of the reservations that are released.
        status: the order's status before.
        over: its status after it was given back as a whole.
        event: the event of a part.
    """

    was: ClassVar[Reservation.State]
    status: ClassVar[Status]
    over: ClassVar[frozenset[Status]]
    event: ClassVar[OrderEvent.Kind]

    @abstractmethod
    def restocks(self, sale: Sale) -> bool:
        """Return whether the units are sold again; otherwise they are written off."""

    def locked(self, order: Order) -> AbstractContextManager[None]:
        """Lock what comes before the line's reservation, for a part."""
        return nullcontext()

    @abstractmethod
    def end(self, order: Order) -> None:
        """Take the order's step: nothing of it is left."""

    @abstractmethod
    def keep_rest(self, order: Order, part: Part, worth: int, released: Sequence[Released]) -> None:
        """Keep the order without a part.

        Args:
            order: with its row locked.
            part: what is given back.
            worth: its price, in minor units.
            released: its reservation.
        """

    def count_part(self, order: Order, worth: int) -> None:  # noqa: B027  # most need nothing
        """Change the order's amount for a part."""


def give_back(order: Order, way: GivingBack, part: Part | None) -> None:
    """Give back an order or a part of it. Giving it back again changes nothing.

    Raises:
        WrongState: the order is in another state.
        Refusal: there are fewer units, or the part's key was used for another part.
    """
    if part is not None:
        _give_back_part(order, way, part)
        return
    if _release_all(order, way):
        return
    order.refresh_from_db()
    # If it is in the right state now, a payment arrived between the two looks.
    if order.status == way.status and _release_all(order, way):
        return
    order.refresh_from_db()
    if order.status not in way.over:
        raise WrongState(order.status)


def _release_all(order: Order, way: GivingBack) -> bool:
    lines = list(order.lines.all())
    gone = [line.pk for line in lines if not way.restocks(line.sale)]
    ids = [line.pk for line in lines]
    with services.releasing(ids, was=way.was, written_off=gone) as released:
        if released:
            way.end(order)
    return bool(released)


def _give_back_part(order: Order, way: GivingBack, part: Part) -> None:
    line = _line_of(order, part)
    gone = [] if way.restocks(line.sale) else [line.pk]
    releasing = services.releasing([line.pk], was=way.was, units=part.quantity, written_off=gone)
    with way.locked(order), releasing as released:
        status = lock(order.pk)
        if _was_given_back(part, way.event, line):
            released.clear()
        elif not released:
            raise Refusal("invalid_quantity")
        elif status != way.status:
            raise WrongState(status)
        else:
            worth = line.price * part.quantity
            way.count_part(order, worth)
            note(
                order.pk,
                way.event,
                amount=worth,
                quantity=part.quantity,
                line=line.pk,
                key=part.key,
            )
            if _keeps_units(order, released, way.was):
                way.keep_rest(order, part, worth, released)
            else:
                way.end(order)


def _line_of(order: Order, part: Part) -> OrderLine:
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


def _was_given_back(part: Part, kind: OrderEvent.Kind, line: OrderLine) -> bool:
    """Return whether a part was given back under its key before; the order's row must be locked.

    Raises:
        Refusal: the key belongs to another part.
    """
    event = OrderEvent.objects.filter(order=line.order_id, key=part.key).first()
    if event is None:
        return False
    if (event.kind, event.line_id, event.quantity) != (kind, line.pk, part.quantity):
        raise Refusal("idempotency_key_reused")
    return True


def _keeps_units(order: Order, released: Sequence[Released], state: Reservation.State) -> bool:
    """Return whether an order keeps units when these are released; its row must be locked.

    Args:
        order: the order.
        released: what this transaction is about to release.
        state: of the reservations that count.
    """
    if any(release.kept for release in released):
        return True
    others = Reservation.objects.filter(orderline__order=order, state=state)
    return others.exclude(pk__in=[release.reservation for release in released]).exists()
