"""Checks that orders and their money agree, and helpers to settle payments."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from django.db import transaction
from django.db.models.functions import Now
from django.test import Client

from inventory.models import Reservation
from inventory.tests.helpers import book
from shop import payments
from shop.audit import examine
from shop.audit.report import mismatches
from shop.catalogue.models import Sale
from shop.orders.models import Order
from shop.orders.transitions import Step
from shop.payments import paying, recovery, settlement
from shop.payments.models import Payment, Refund
from shop.tests.catalogue import an_order
from shop.tests.provider import FakeProvider

Status = Order.Status
KEPT = (Status.PAID, Status.FULFILLED)
BY_EVENT = {step.event: step for step in Step}


def make_due(*found: Order) -> None:
    """Move the orders' deadlines into the past."""
    Reservation.objects.filter(orderline__order__in=found).update(deadline="2020-01-01T00:00Z")


def sweep() -> None:
    """Settle all pending payments and refunds now."""
    for kind in (Payment, Refund):
        with transaction.atomic():
            # Ordered, because sweeps may run concurrently.
            rows = kind.objects.filter(state=kind.State.PENDING).order_by("pk")
            pending = list(rows.select_for_update().values_list("pk", flat=True))
            kind.objects.filter(pk__in=pending).update(not_before=Now())
    recovery.settle()


def deliver(fake_provider: FakeProvider, times: int = 1) -> None:
    """Finish the provider's work and send its events this many times."""
    taken, given = fake_provider.finish()
    for _ in range(times):
        for refund in given:
            with transaction.atomic():  # as the webhook does
                settlement.record_refund_outcome(refund)
        for intent in taken:
            paying.record(intent)


def come_to_rest(fake_provider: FakeProvider) -> None:
    """Deliver and sweep until no payment or refund is pending."""
    fake_provider.before = fake_provider.after = lambda call: None
    for _ in range(4):
        with suppress(settlement.NotYet):  # an event that comes before the answer to our call
            deliver(fake_provider)
        sweep()
    assert not Payment.objects.filter(state=Payment.State.PENDING).exists()
    assert not Refund.objects.filter(state=Refund.State.PENDING).exists()


def worth(order: Order) -> int:
    """Return the value of the units that the buyer keeps."""
    if order.status not in KEPT:
        return 0
    return sum(line.price * line.live for line in order.lines.all())


def check(sale: Sale, fake_provider: FakeProvider) -> None:
    """Check orders against their reservations, timelines and the provider's ledger."""
    assert mismatches([sale.item_id]) == []
    live = 0
    for order in Order.objects.filter(lines__sale=sale).with_lines().order_by("pk"):
        captured, refunded = fake_provider.captures[order.pk], sum(fake_provider.refunds[order.pk])
        assert len(captured) <= 1, f"order {order.pk} was charged {captured}"
        assert refunded <= sum(captured), f"order {order.pk}: {refunded} back of {captured}"
        if order.status in KEPT:
            assert len(captured) == 1 or not order.amount, f"order {order.pk} was never charged"
        net = sum(captured) - refunded
        assert net == worth(order), f"order {order.pk} is {order.status}: {net} was kept"
        assert order.refunded == refunded
        assert order.status == status_by_timeline(order), order.pk
        live += sum(line.live for line in order.lines.all())
    stock = book(sale.item_id)
    assert stock.held + stock.confirmed == live
    assert stock.available == stock.total - live


def status_by_timeline(order: Order) -> str:
    """Return the status that the timeline leads to, checking each step."""
    status: str = Status.AWAITING_PAYMENT
    for event in order.events.all():
        step = BY_EVENT.get(event.kind)
        if step is not None:
            assert step.before == status, f"{event} while it was {status}"
            status = step.after
    return status


def status(order: Order) -> str:
    return Order.objects.get(pk=order.pk).status


def paid(sale: Sale) -> Order:
    return payments.pay(an_order(sale))


class Books(Protocol):
    """What a fake provider has written down."""

    def kept(self, intent: str, /) -> int:
        """Return the money of a payment that the shop has, in the provider's minor units."""


def receive_webhook(body: bytes, headers: dict[str, str]) -> int:
    """Post a webhook to the shop as its provider does; return the status."""
    answer = Client().post(
        "/api/v1/webhooks/psp", body, content_type="application/json", headers=headers
    )
    return answer.status_code


def begin_to_pay(sale: Sale) -> tuple[Order, str]:
    """Order one unit and begin to pay it; return the order, and the provider's payment."""
    order = payments.pay(an_order(sale))
    return order, Payment.objects.get(order=order).intent


def must_agree(books: Books, *intents: str) -> None:
    """Check that provider and shop have the same money, and that the audit finds nothing."""
    for intent in intents:
        payment = Payment.objects.get(intent=intent)
        taken = payment.amount if payment.state == "captured" else 0
        back = sum(refund.amount for refund in payment.refunds.filter(state="done"))
        assert books.kept(intent) == taken - back
    assert examine().problems == []
