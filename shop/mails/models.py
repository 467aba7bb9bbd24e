"""Mails to buyers."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from shop.orders.models import Order


class Mail(models.Model):
    """A mail owed to a buyer. The row is the follow-up's effect: one of a kind for an order.

    Sending happens after the row was committed and may, after a crash, happen twice; the
    Message-ID is made from the row, so that mail programs show it once. Dead means that it failed
    too often to be tried again by itself; it is kept, to be tried again when somebody says so.
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
