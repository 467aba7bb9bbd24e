"""Mails to buyers."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from shop.orders.models import Order


class Mail(models.Model):
    """A mail owed to a buyer: one row per order and kind, written by the follow-up.

    It is sent after the row's commit and may be sent twice after a crash; its Message-ID derives
    from the row, so that mail programs show it once. ``dead`` means that all attempts failed; the
    row stays until an operator retries it.
    """

    class Kind(models.TextChoices):
        """The occasion of the mail."""

        CONFIRMATION = "confirmation", "order received"
        EXPIRED = "expired", "order expired"
        PAID = "paid", "payment received"
        REFUNDED = "refunded", "money given back"
        TOO_LATE = "money_owed", "paid too late or too much"

    order = models.ForeignKey(Order, on_delete=models.PROTECT)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    created = models.DateTimeField(db_default=Now())
    sent = models.DateTimeField(null=True, blank=True)
    dead = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(db_default=0)
    not_before = models.DateTimeField(db_default=Now(), help_text="back-off after a failure")
    error = models.TextField(blank=True, db_default="")
    trace = models.CharField(
        max_length=55, blank=True, db_default="", editable=False, help_text="W3C traceparent"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "kind"], name="shop_mail_one_of_a_kind"),
        ]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=Q(sent__isnull=True, dead__isnull=True),
                name="shop_mail_unsent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for order {self.order_id}"
