"""Safe repairs: each does now what the shop would do later, or asks the provider again.

Nothing is overwritten. A contradiction in the books is never "repaired": it is a bug, and its
traces are needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from inventory import outbox
from inventory.models import OutboxMessage
from shop import orders
from shop.audit import money
from shop.background import follow_up
from shop.payments import paying, recovery
from shop.payments.models import Payment, Refund
from shop.payments.provider import PaymentUnknown, provider


def repair() -> Iterator[str]:
    """Repair; yield one sentence per action."""
    yield f"expired {orders.expire()} orders past their deadline"
    if settings.PAYMENT_PROVIDER:
        yield from _ask_about_pending()
        yield from _ask_about_disputed()
    yield from _wake()
    follow_up.follow_up()
    yield f"{outbox.pending()} messages are not done yet"


def _ask_about_pending() -> Iterator[str]:
    """Ask the provider now about pending payments and refunds."""
    pending = [kind.objects.filter(state=kind.State.PENDING) for kind in (Payment, Refund)]
    wanted = max(rows.update(not_before=Now()) for rows in pending)
    if wanted:
        asked = recovery.settle(limit=wanted)
        left = sum(rows.count() for rows in pending)
        yield f"asked the provider about {asked} payments and refunds; {left} are still pending"


def _ask_about_disputed() -> Iterator[str]:
    """Record what the provider knows and the shop has missed."""
    try:
        for order in money.disputed():
            for intent in provider().find(order):
                paying.record(intent)
            yield f"recorded the provider's state of order {order}"
    except PaymentUnknown as error:
        yield f"the provider does not answer; its ledger was not compared ({error})"


def _wake() -> Iterator[str]:
    asleep = Q(not_before__gt=Now()) | Q(dead__isnull=False)
    if count := outbox.retry(OutboxMessage.objects.filter(asleep)):
        yield f"made {count} messages due that were put off or dead"
