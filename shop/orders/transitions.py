"""The steps between the states of an order; each changes the order, its timeline and the outbox.

    awaiting_payment ─→ paid ─→ fulfilled
        │  │              └──→ refund_pending ⇄ refunded     (back if the refund fails later)
        │  └──→ expired ─→ paid     (paid late, with units still left)
        │         └──────→ awaiting_payment     (held again by staff, with units still left)
        └─────→ cancelled

What was handed over goes to refund_pending, too, once staff have taken it back.

All transactions lock in this order: payment, reservations, order, refund, invoice series, items.
Nobody who has locked an item draws a number, since what is sold in a batch is not paid then. This
rules out deadlocks, and buyers of an item wait for no round trip of a transaction that returns its
units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import prefetch_related_objects

from inventory import outbox
from inventory.metrics import LockMetrics
from inventory.models import Reservation
from inventory.redis import DegradableLock
from inventory.services import Released
from shop.operating import metrics
from shop.orders.invoices import credit_what_is_left, issue_invoices
from shop.orders.models import Order, OrderEvent, OrderLine, Status, lines_for_change
from shop.refusals import Refusal

Kind = OrderEvent.Kind

ORDER_LOCK = DegradableLock(
    "order", lease=15.0, timeout=5.0, counted=LockMetrics("order_", "locks of orders")
)
"""Keeps two clicks from racing in the database and at the provider. If they do race, guarded
updates and unique keys keep the order correct. The lease exceeds the longest answer of the
provider. The timeout lets a second click wait for the first one's answer, which then applies to it
too."""


CHANGING = ("status", "amount", "fee_amount", "refunded", "conceded", "pay_before")
"""The fields of an order that change after it was opened."""


class Step(Enum):
    """A step: its name in the order's timeline and the outbox, the required state, the new one."""

    PAY = "paid", Status.AWAITING_PAYMENT, Status.PAID
    PAY_LATE = "paid_late", Status.EXPIRED, Status.PAID
    FULFIL = "fulfilled", Status.PAID, Status.FULFILLED
    EXPIRE = "expired", Status.AWAITING_PAYMENT, Status.EXPIRED
    CANCEL = "cancelled", Status.AWAITING_PAYMENT, Status.CANCELLED
    RETURN = "returned", Status.PAID, Status.REFUND_PENDING
    TAKE_BACK = "taken_back", Status.FULFILLED, Status.REFUND_PENDING
    REFUND = "refunded", Status.REFUND_PENDING, Status.REFUNDED
    REOPEN_REFUND = "refund_reopened", Status.REFUNDED, Status.REFUND_PENDING
    RENEW = "renewed", Status.EXPIRED, Status.AWAITING_PAYMENT

    def __init__(self, event: str, before: Status, after: Status) -> None:
        self.event = event
        self.before = before
        self.after = after


@dataclass(frozen=True, slots=True)
class Act:
    """An act of staff, as the timeline keeps it with the events that it causes.

    Attributes:
        actor: the user's name; empty for what buyers and the shop itself do.
        reason: why, in the actor's words.
    """

    actor: str = ""
    reason: str = ""


NOBODY = Act()

_act: ContextVar[Act] = ContextVar("act", default=NOBODY)


@contextmanager
def acting(act: Act) -> Iterator[None]:
    """Keep an act with all events of orders that are written in the block, in this thread."""
    before = _act.set(act)
    try:
        yield
    finally:
        _act.reset(before)


def _event(order: int, kind: str, **more: Any) -> OrderEvent:
    act = _act.get()
    return OrderEvent(order_id=order, kind=kind, actor=act.actor, reason=act.reason, **more)


class WrongState(Refusal):
    """The order's state does not allow the step.

    Attributes:
        status: the order's status.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"order_{status}")
        self.status = status


def topic(event: str) -> str:
    """Return the topic of outbox messages about an event."""
    return f"orders.{event}"


def lock(order: int) -> str:
    """Lock an order's row until the transaction ends; return its status."""
    rows = Order.objects.select_for_update(no_key=True).filter(pk=order)
    return rows.values_list("status", flat=True).get()


def refresh(order: Order) -> None:
    """Read again what changes of an order and its lines, in two short queries."""
    order.refresh_from_db(fields=CHANGING)
    prefetch_related_objects([order], lines_for_change())  # if they have not been read yet
    reservations = Reservation.objects.filter(orderline__order=order.pk)
    rows = reservations.values_list("pk", "state", "returned")
    now = {pk: (state, returned) for pk, state, returned in rows}
    for line in order.lines.all():
        line.reservation.state, line.reservation.returned = now[line.pk]


def take(step: Step, orders: Sequence[int]) -> None:
    """Take a step with orders, all of which must be in its first state.

    Runs in a transaction which has locked the orders' reservations and changes them as the step
    requires.

    Raises:
        WrongState: an order is in another state. The transaction must roll back.
    """
    if not orders:
        return
    moved = Order.objects.filter(pk__in=orders, status=step.before).update(status=step.after)
    if moved != len(orders):
        raise WrongState(_elsewhere(step, orders))
    OrderEvent.objects.bulk_create([_event(pk, step.event) for pk in orders])
    _announce(step.event, orders)
    # Last: the series' row is locked until this transaction ends.
    if step in {Step.PAY, Step.PAY_LATE}:
        issue_invoices(orders)
    elif step is Step.REFUND:
        credit_what_is_left(orders)


def fulfil(orders: Sequence[int]) -> dict[int, str]:
    """Mark those orders that are paid as handed over, in one transaction.

    Returns:
        The status of each order that this call has not handed over, newest first. It is
        `fulfilled` for one that was handed over before.
    """
    chosen = Order.objects.filter(pk__in=orders)
    with transaction.atomic():
        paid = chosen.filter(status=Status.PAID).select_for_update(no_key=True).order_by("pk")
        handed_over = list(paid.values_list("pk", flat=True))
        take(Step.FULFIL, handed_over)
        left = chosen.exclude(pk__in=handed_over).order_by("-pk")
        return dict(left.values_list("pk", "status"))


def note(
    order: int,
    kind: Kind,
    *,
    amount: int | None = None,
    quantity: int | None = None,
    line: int | None = None,
    key: UUID | None = None,
) -> None:
    """Record an event of an order without changing its state, and notify the outbox.

    Raises:
        IntegrityError: the key was used for this order.
    """
    _event(order, kind, amount=amount, quantity=quantity, line_id=line, key=key).save()
    _announce(kind, [order])


def _announce(event: str, orders: Sequence[int]) -> None:
    transaction.on_commit(partial(metrics.ORDER_EVENTS.labels(event).inc, len(orders)))
    outbox.emit(topic(event), {"orders": list(orders)})


def orders_of(released: Sequence[Released]) -> list[int]:
    """Return the ids of the orders of reservations, in ascending order."""
    lines = OrderLine.objects.filter(pk__in=[release.reservation for release in released])
    return sorted(set(lines.values_list("order", flat=True)))


def _elsewhere(step: Step, orders: Sequence[int]) -> str:
    others = Order.objects.filter(pk__in=orders).exclude(status__in=[step.before, step.after])
    return others.values_list("status", flat=True).first() or step.after
