"""The provider's operations: create, capture, cancel, refund. One transaction each.

Every function locks the intent's row first, so that the second of two concurrent requests sees the
result of the first.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet, Sum
from django.db.models.functions import Now

from lab.psp import behaviour, events
from lab.psp.models import Intent, LedgerLine, Refund

Answer = tuple[int, dict[str, Any]]
"""HTTP status and document."""

Due = TypeVar("Due", Intent, Refund)
Status = Intent.Status
Operation = LedgerLine.Operation

AT_ONCE = 100
"""Maximum number of captures, and of refunds, settled per transaction."""


class NoSuchIntent(Exception):
    """No payment has this id."""


def create(order: int, amount: int, currency: str) -> Answer:
    """Create a payment."""
    intent = Intent.objects.create(order=order, amount=amount, currency=currency)
    return 200, intent_document(intent)


def capture(intent_id: str) -> Answer:
    """Take the money. A captured payment is never captured again, under any key.

    Raises:
        NoSuchIntent: no payment has this id.
    """
    intent = _locked(intent_id)
    processing = behaviour.current().processing
    if intent.status == Status.REQUIRES_CAPTURE and processing:
        intent.status, intent.due = Status.PROCESSING, Now() + timedelta(milliseconds=processing)
        intent.save(update_fields=["status", "due"])
        events.ring_when_committed()
    elif intent.status == Status.REQUIRES_CAPTURE:
        _take(intent)
    if intent.status == Status.FAILED:
        return refusal(402, "card_declined")
    if intent.status == Status.CANCELLED:
        return refusal(409, "intent_cancelled")
    return 200, intent_document(intent)


def cancel(intent_id: str) -> Answer:
    """Cancel a payment for good, unless it is captured or processing.

    Raises:
        NoSuchIntent: no payment has this id.
    """
    intent = _locked(intent_id)
    if intent.status in {Status.CAPTURED, Status.PROCESSING}:
        return refusal(409, f"intent_{intent.status}")
    if intent.status == Status.REQUIRES_CAPTURE:
        intent.status = Status.CANCELLED
        intent.save(update_fields=["status"])
        events.emit("payment_intent.cancelled", intent.order, intent_document(intent))
    return 200, intent_document(intent)


def refund(intent_id: str, amount: int) -> Answer:
    """Refund money, in total at most the captured amount, pending refunds included.

    Raises:
        NoSuchIntent: no payment has this id.
    """
    intent = _locked(intent_id)
    promised = intent.refunds.exclude(status=Refund.Status.FAILED).aggregate(all=Sum("amount"))
    if amount > intent.captured - (promised["all"] or 0):
        return refusal(409, "refund_exceeds_capture")
    processing = timedelta(milliseconds=behaviour.current().processing)
    given = Refund.objects.create(intent=intent, amount=amount, due=Now() + processing)
    if processing:
        events.ring_when_committed()
    else:
        _give_back(given)
    return 200, refund_document(given)


def settle() -> int:
    """Decide due captures and refunds; return their number. Safe to run anywhere, at any time."""
    pending = Refund.objects.filter(status=Refund.Status.PENDING).select_related("intent")
    with transaction.atomic():
        intents = _due(Intent.objects.filter(status=Status.PROCESSING))
        for intent in intents:
            _take(intent)
        refunds = _due(pending)
        for given in refunds:
            _give_back(given)
    return len(intents) + len(refunds)


def intent_document(intent: Intent) -> dict[str, Any]:
    """Return a payment as in the API."""
    return {
        "id": intent.pk,
        "object": "payment_intent",
        "order": intent.order,
        "amount": intent.amount,
        "currency": intent.currency,
        "status": str(intent.status),
        "refunded": intent.refunded,
    }


def refund_document(given: Refund) -> dict[str, Any]:
    """Return a refund as in the API."""
    return {
        "id": given.pk,
        "object": "refund",
        "intent": given.intent_id,
        "amount": given.amount,
        "status": str(given.status),
    }


def refusal(status: int, code: str) -> Answer:
    """Return a definite refusal."""
    return status, {"error": {"code": code}}


def _locked(intent_id: str) -> Intent:
    try:
        return Intent.objects.select_for_update().get(pk=intent_id)
    except Intent.DoesNotExist:
        raise NoSuchIntent(intent_id) from None


def _due(waiting: QuerySet[Due]) -> list[Due]:
    """Lock and return the due rows, except those that another worker has locked."""
    locked = waiting.select_for_update(skip_locked=True, of=("self",))
    return list(locked.filter(due__lte=Now()).order_by("due")[:AT_ONCE])


def _take(intent: Intent) -> None:
    """Capture the payment, or fail it as the behaviour demands."""
    now = behaviour.current()
    # Each attempt to pay an order draws anew.
    attempt = Intent.objects.filter(order=intent.order).count() if now.decline else 0
    if now.strikes(now.decline, "decline", intent.order, attempt):
        intent.status = Status.FAILED
        intent.save(update_fields=["status"])
    else:
        LedgerLine.objects.create(intent=intent, operation=Operation.CAPTURE, amount=intent.amount)
        # The ledger's trigger has made the same change.
        intent.status, intent.captured = Status.CAPTURED, intent.amount
    events.emit(f"payment_intent.{intent.status}", intent.order, intent_document(intent))


def _give_back(given: Refund) -> None:
    """Refund the money, or fail the refund as the behaviour demands."""
    now = behaviour.current()
    attempt = given.intent.refunds.count() if now.bounce else 0
    if now.strikes(now.bounce, "bounce", given.intent.order, attempt):
        given.status = Refund.Status.FAILED
    else:
        LedgerLine.objects.create(
            intent=given.intent, refund=given, operation=Operation.REFUND, amount=given.amount
        )
        given.status = Refund.Status.SUCCEEDED
    given.save(update_fields=["status"])
    events.emit(f"refund.{given.status}", given.intent.order, refund_document(given))
