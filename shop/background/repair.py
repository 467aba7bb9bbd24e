"""Safe repairs: each does now what the shop would do later, or asks the provider again.

Nothing is overwritten. A contradiction in the books is never "repaired": it is a bug, and its
traces are needed. A repair that fails is reported, and does not keep the others from being made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Failures:
    """The repairs that failed, one sentence each."""

    sentences: list[str] = field(default_factory=list)

    def add(self, what: str, error: Exception) -> str:
        """Log the current exception, and return the sentence about it."""
        log.exception("%s failed", what)
        self.sentences.append(f"{what} failed: {error!r}")
        return self.sentences[-1]


def repair(failures: Failures | None = None) -> Iterator[str]:
    """Repair; yield one sentence per action, also for one that failed.

    Args:
        failures: collects what failed.
    """
    failures = Failures() if failures is None else failures
    repairs: dict[str, Callable[[Failures], Iterator[str]]] = {
        "the expiry of orders past their deadline": _expire,
        "the repair of pending payments and refunds": _ask_about_pending,
        "the repair of payments that the provider knows better": _ask_about_disputed,
        "the repair of messages that were put off or dead": _wake,
        "the delivery of messages": _deliver,
    }
    for name, repair in repairs.items():
        try:
            yield from repair(failures)
        except Exception as error:  # noqa: BLE001  # the others do not depend on it
            yield failures.add(name, error)


def _expire(failures: Failures) -> Iterator[str]:
    yield f"expired {orders.expire()} orders past their deadline"


def _deliver(failures: Failures) -> Iterator[str]:
    follow_up.follow_up()
    yield f"{outbox.pending()} messages are not done yet"


def _ask_about_pending(failures: Failures) -> Iterator[str]:
    """Ask the provider now about pending payments and refunds."""
    if not settings.PAYMENT_PROVIDER:
        return
    pending = [kind.objects.filter(state=kind.State.PENDING) for kind in (Payment, Refund)]
    wanted = max(rows.update(not_before=Now()) for rows in pending)
    if wanted:
        asked = recovery.settle(limit=wanted)
        left = sum(rows.count() for rows in pending)
        yield f"asked the provider about {asked} payments and refunds; {left} are still pending"


def _ask_about_disputed(failures: Failures) -> Iterator[str]:
    """Record what the provider knows and the shop has missed."""
    if not settings.PAYMENT_PROVIDER:
        return
    try:
        disputed = money.disputed()
    except PaymentUnknown as error:
        yield f"the provider does not answer; its ledger was not compared ({error})"
        return
    for order in disputed:
        try:
            for payment in Payment.objects.filter(order=order).exclude(intent=""):
                paying.record(provider().get(payment.intent))
                yield f"recorded the provider's state of payment {payment.intent} of order {order}"
        except Exception as error:  # noqa: BLE001  # the other orders do not depend on it
            yield failures.add(f"the repair of order {order}", error)


def _wake(failures: Failures) -> Iterator[str]:
    asleep = Q(not_before__gt=Now()) | Q(dead__isnull=False)
    if count := outbox.retry(OutboxMessage.objects.filter(asleep)):
        yield f"made {count} messages due that were put off or dead"
