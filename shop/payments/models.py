"""Payments and refunds, and what the shop knows of their outcome.

Each row is written before the provider is called, with the idempotency key of that call. After any
crash, the call can be repeated and takes effect once.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext

from shop.orders.models import Order


class Payment(models.Model):
    """An attempt to pay an order. At most one is pending.

    Several may be captured, if the provider took money although it had reported a failure; all of
    it but one goes back.
    """

    class State(models.TextChoices):
        """The known outcome; pending until it is certain."""

        PENDING = "pending", "pending"
        CAPTURED = "captured", "captured"
        FAILED = "failed", "failed"

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="payments")
    key = models.CharField(
        max_length=100, unique=True, help_text="idempotency key, kept for all repeats"
    )
    intent = models.CharField(max_length=100, blank=True, help_text="the provider's own id")
    amount = models.BigIntegerField(help_text="in minor units of the order's currency")
    owed_back = models.BigIntegerField(db_default=0, help_text="given back, or on its way back")
    state = models.CharField(max_length=8, choices=State.choices, default=State.PENDING)
    action = models.JSONField(
        null=True, editable=False, help_text="what the buyer has to do, or had; null if nothing"
    )
    waits_for_buyer = models.BooleanField(
        db_default=False, editable=False, help_text="the buyer has not done it yet"
    )
    created = models.DateTimeField(db_default=Now())
    settled = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(db_default=0, help_text="of the sweep")
    not_before = models.DateTimeField(help_text="when the sweep looks at it")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["order"], condition=Q(state="pending"), name="shop_payment_one_pending"
            ),
            models.UniqueConstraint(
                fields=["intent"], condition=~Q(intent=""), name="shop_payment_one_per_intent"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["pending", "captured", "failed"]),
                name="shop_payment_state_known",
            ),
            models.CheckConstraint(
                condition=Q(owed_back__gte=0) & Q(owed_back__lte=F("amount")),
                name="shop_payment_no_more_back_than_taken",
            ),
        ]
        indexes = [
            models.Index(
                fields=["not_before"], condition=Q(state="pending"), name="shop_payment_todo"
            ),
        ]

    def __str__(self) -> str:
        values = {"number": self.pk, "order": self.order_id, "state": self.get_state_display()}
        return gettext("payment %(number)s of order %(order)s: %(state)s") % values


class Refund(models.Model):
    """Money to give back to a buyer. Never deleted: its key shows that it was requested."""

    class State(models.TextChoices):
        """The known outcome."""

        PENDING = "pending", "pending"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    class Reason(models.TextChoices):
        """Why the refund is due."""

        RETURNED = "returned", "the buyer returned it"
        TOO_LATE = "too_late", "paid after the order had ended"
        TOO_MUCH = "too_much", "more was paid than was still ordered"
        GOODWILL = "goodwill", "goodwill"
        BY_HAND = "by_hand", "given back by hand at the provider"
        DISPUTE = "dispute", "taken back by the buyer's bank"

    payment = models.ForeignKey(Payment, on_delete=models.PROTECT, related_name="refunds")
    key = models.CharField(
        max_length=120, unique=True, help_text="idempotency key, kept for all repeats"
    )
    number = models.CharField(max_length=100, blank=True, help_text="the provider's own id")
    amount = models.BigIntegerField(help_text="in minor units of the order's currency")
    reason = models.CharField(max_length=8, choices=Reason.choices)
    state = models.CharField(max_length=7, choices=State.choices, default=State.PENDING)
    tries = models.PositiveIntegerField(
        db_default=1, help_text="a refund that failed for certain is tried again as another one"
    )
    created = models.DateTimeField(db_default=Now())
    settled = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(db_default=0, help_text="of the sweep")
    not_before = models.DateTimeField(help_text="when the sweep looks at it")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["number"], condition=~Q(number=""), name="shop_refund_one_per_number"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="shop_refund_of_something"),
            models.CheckConstraint(
                condition=Q(state__in=["pending", "done", "failed"]),
                name="shop_refund_state_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["not_before"], condition=Q(state="pending"), name="shop_refund_todo"
            ),
        ]

    def __str__(self) -> str:
        values = {"number": self.pk, "reason": self.get_reason_display()}
        values["state"] = self.get_state_display()
        return gettext("refund %(number)s (%(reason)s): %(state)s") % values

    @property
    def order(self) -> Order:
        """Return the order whose payment goes back."""
        return self.payment.order


class Discrepancy(models.Model):
    """What the provider says contradicts the books, and only an operator can decide on it.

    The audit reports it, and so raises an alert, until it is closed.
    """

    class Kind(models.TextChoices):
        """What kind of contradiction."""

        MISMATCH = "mismatch", "the answer is not about what was asked"
        REVERSED = "reversed", "failed after it had succeeded"
        DISPUTE = "dispute", "disputed by the buyer's bank"
        REVIVED = "revived", "succeeded after it had failed"

    payment = models.ForeignKey(Payment, on_delete=models.PROTECT, related_name="discrepancies")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    number = models.CharField(
        max_length=100, help_text="the provider's id of the payment, refund or dispute"
    )
    text = models.TextField(help_text="what the provider says, and what the books say")
    opened = models.DateTimeField(db_default=Now())
    closed = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "discrepancies"
        ordering = ("-pk",)
        constraints = [
            models.UniqueConstraint(
                fields=["payment", "kind", "number"],
                condition=Q(closed__isnull=True),
                name="shop_discrepancy_one_open",
            ),
        ]

    def __str__(self) -> str:
        return self.text


class WebhookEvent(models.Model):
    """An event that was applied. Its row is written with its effect, so each takes effect once."""

    id = models.CharField(primary_key=True, max_length=100, help_text="the provider's own")
    type = models.CharField(max_length=60)
    received = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-received"]

    def __str__(self) -> str:
        return f"{self.type} ({self.id})"
