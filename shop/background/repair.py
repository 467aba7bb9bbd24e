"""Safe repairs: each does now what the shop would do later, or asks the provider again.

Nothing is overwritten. A contradiction in the books is never "repaired": it is a bug, and its
traces are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from inventory.models import OutboxMessage
from shop import orders
from shop.audit import money
from shop.background import follow_up
from shop.mails.models import Mail
from shop.payments import provider_calls, recovery
from shop.payments.models import Payment, Refund
from shop.payments.provider import PaymentUnknown, provider


def repair() -> Iterator[str]:
    """Repair; yield one sentence per action."""
    yield f"released {orders.expire()} reservations past their deadline"
    yield from _ask_about_pending()
    yield from _ask_about_disputed()
    yield from _wake("messages", OutboxMessage.objects.filter(done=None))
    yield from _wake("mails", Mail.objects.filter(sent=None))
    follow_up.follow_up()
    yield (
        f"{OutboxMessage.objects.filter(done=None).count()} messages and "
        f"{Mail.objects.filter(sent=None).count()} mails are not done yet"
    )


def _ask_about_pending() -> Iterator[str]:
    """Ask the provider now about pending payments and refunds."""
    pending = [kind.objects.filter(state=kind.State.PENDING) for kind in (Payment, Refund)]
    wanted = max(rows.update(not_before=Now()) for rows in pending)
    if wanted:
        asked = recovery.settle(most=wanted)
        left = sum(rows.count() for rows in pending)
        yield f"asked the provider about {asked} payments and refunds; {left} are still pending"


def _ask_about_disputed() -> Iterator[str]:
    """Record what the provider knows and the shop has missed."""
    try:
        for order in money.disputed():
            for intent in provider().find(order):
                provider_calls.record(intent)
            yield f"recorded the provider's state of order {order}"
    except PaymentUnknown as error:
        yield f"the provider does not answer; its ledger was not compared ({error})"


def _wake(what: str, rows: QuerySet[Any]) -> Iterator[str]:
    asleep = rows.filter(not_before__gt=Now()) | rows.filter(dead__isnull=False)
    count = asleep.update(dead=None, attempts=0, not_before=Now())
    if count:
        yield f"made {count} {what} due that were put off or dead"
