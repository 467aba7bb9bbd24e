"""The provider's tables. The ledger is authoritative; its migration makes it append-only."""

from __future__ import annotations

from uuid import uuid4

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


def intent_id() -> str:
    """Generate the id of an intent."""
    return f"pi_{uuid4().hex}"


def refund_id() -> str:
    """Generate the id of a refund."""
    return f"re_{uuid4().hex}"


def event_id() -> str:
    """Generate the id of an event."""
    return f"evt_{uuid4().hex}"


class Intent(models.Model):
    """A payment. All amounts are in minor units of its currency.

    The database updates captured and refunded amounts when the ledger grows.
    """

    class Status(models.TextChoices):
        """The state."""

        REQUIRES_CAPTURE = "requires_capture"
        PROCESSING = "processing"
        CAPTURED = "captured"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.CharField(primary_key=True, max_length=40, default=intent_id)
    order = models.BigIntegerField(db_index=True)
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    status = models.CharField(
        max_length=16, choices=Status.choices, default=Status.REQUIRES_CAPTURE
    )
    captured = models.BigIntegerField(db_default=0)
    refunded = models.BigIntegerField(db_default=0)
    due = models.DateTimeField(null=True, help_text="when a capture in processing is decided")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="psp_intent_of_something"),
            models.CheckConstraint(
                condition=Q(captured=0) | Q(captured=F("amount")), name="psp_intent_captured_once"
            ),
            models.CheckConstraint(
                condition=Q(status="captured", captured=F("amount"))
                | (~Q(status="captured") & Q(captured=0)),
                name="psp_intent_captured_by_the_ledger",
            ),
            models.CheckConstraint(
                condition=Q(refunded__gte=0, refunded__lte=F("captured")),
                name="psp_intent_refunds_within_captures",
            ),
        ]
        indexes = [
            models.Index(fields=["due"], condition=Q(status="processing"), name="psp_intent_due")
        ]

    def __str__(self) -> str:
        return f"{self.id}: {self.status}"


class Refund(models.Model):
    """A refund."""

    class Status(models.TextChoices):
        """The state."""

        PENDING = "pending"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    id = models.CharField(primary_key=True, max_length=40, default=refund_id)
    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, related_name="refunds")
    amount = models.BigIntegerField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.PENDING)
    due = models.DateTimeField(help_text="when it is decided")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="psp_refund_of_something"),
        ]
        indexes = [
            models.Index(fields=["due"], condition=Q(status="pending"), name="psp_refund_due")
        ]

    def __str__(self) -> str:
        return f"{self.id}: {self.status}"


class LedgerLine(models.Model):
    """A movement of money. Rows are only added."""

    class Operation(models.TextChoices):
        """The direction."""

        CAPTURE = "capture"
        REFUND = "refund"

    intent = models.ForeignKey(Intent, on_delete=models.PROTECT)
    refund = models.OneToOneField(Refund, on_delete=models.PROTECT, null=True)
    operation = models.CharField(max_length=8, choices=Operation.choices)
    amount = models.BigIntegerField()
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["intent"], condition=Q(operation="capture"), name="psp_one_capture"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="psp_ledger_of_something"),
            models.CheckConstraint(
                condition=Q(operation="capture", refund=None)
                | Q(operation="refund", refund__isnull=False),
                name="psp_ledger_refund_named",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} of {self.amount}"


class IdempotencyKey(models.Model):
    """An answered request; a repeat gets the same answer.

    Written first in the request's transaction: a concurrent repeat waits at the unique index.
    """

    key = models.CharField(primary_key=True, max_length=255)
    request = models.CharField(max_length=64, help_text="SHA-256 of what was asked")
    status = models.SmallIntegerField(null=True)
    answer = models.JSONField(null=True)
    created = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.key


class Event(models.Model):
    """A webhook event, written with its cause and sent until the shop accepts it."""

    id = models.CharField(primary_key=True, max_length=40, default=event_id)
    body = models.TextField()
    remaining = models.PositiveSmallIntegerField(default=1, help_text="copies still to deliver")
    attempts = models.PositiveIntegerField(db_default=0)
    due = models.DateTimeField()
    created = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["due"], condition=Q(remaining__gt=0), name="psp_event_due")]

    def __str__(self) -> str:
        return self.id


class FaultConfiguration(models.Model):
    """The configured behaviour: one row, which survives a restart."""

    settings = models.JSONField()

    def __str__(self) -> str:
        return str(self.settings)
