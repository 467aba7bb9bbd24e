"""Orders, their lines and their events."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils.functional import cached_property
from django.utils.translation import gettext

from inventory.models import Reservation
from shop.catalogue.models import CURRENCY, Sale, local_texts
from shop.money import included_tax


class Status(models.TextChoices):
    """The state of an order; only guarded updates change it."""

    AWAITING_PAYMENT = "awaiting_payment", "awaiting payment"
    PAID = "paid", "paid"
    FULFILLED = "fulfilled", "fulfilled"
    EXPIRED = "expired", "expired"
    CANCELLED = "cancelled", "cancelled"
    REFUND_PENDING = "refund_pending", "refund pending"
    REFUNDED = "refunded", "refunded"


class Orders(models.QuerySet["Order"]):
    """Queries over orders."""

    def with_lines(self) -> Orders:
        """Prefetch lines, sales and products in one query, and names in the visitor's language."""
        lines: QuerySet[OrderLine] = OrderLine.objects.select_related(
            "sale__product", "reservation"
        )
        lines = lines.prefetch_related(*local_texts("sale__product"))
        return self.prefetch_related(models.Prefetch("lines", lines.order_by("pk")))

    def for_change(self) -> Orders:
        """Prefetch what a change and its answer need of the lines, in one query."""
        return self.prefetch_related(lines_for_change())


def lines_for_change() -> models.Prefetch[Any]:
    """Return how to prefetch an order's lines with their sales and reservations."""
    lines: QuerySet[OrderLine] = OrderLine.objects.select_related("reservation", "sale")
    return models.Prefetch("lines", lines.order_by("pk"))


class Order(models.Model):
    """A buyer's order, opened in its reservations' transaction.

    Its contents are its `OrderLine` rows, one per reservation: one for a purchase, several for a
    cart.
    """

    Status = Status

    DETAILS: ClassVar[tuple[str, ...]] = ()
    """Fields that the buyer states with the order, by name; see `shop.orders.details`."""

    buyer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    amount = models.BigIntegerField(
        help_text="in minor units: to be paid, or paid; less what was cancelled"
    )
    currency = models.CharField(max_length=3, help_text="of all amounts of this order")
    fee_amount = models.BigIntegerField(
        db_default=0, help_text="of the amount, for fees that were not given back"
    )
    refunded = models.BigIntegerField(db_default=0, help_text="of what was paid, given back")
    conceded = models.BigIntegerField(
        db_default=0, help_text="of that, or on its way back: while the buyer keeps the units"
    )
    status = models.CharField(
        max_length=16, choices=Status.choices, default=Status.AWAITING_PAYMENT
    )
    pay_before = models.DateTimeField()
    created = models.DateTimeField(db_default=Now())

    objects = Orders.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=Status.values), name="shop_order_status_known"
            ),
            models.CheckConstraint(
                condition=Q(currency__regex=CURRENCY), name="shop_order_currency_is_a_code"
            ),
        ]
        # Each act of staff on an order (`shop.staff`) has its own.
        permissions = [
            ("cancel_order", "Can cancel orders"),
            ("refund_order", "Can refund orders"),
            ("record_refund", "Can record money that went back without the shop"),
            ("extend_order", "Can extend and renew the hold of orders"),
            ("resend_mail", "Can send mails about orders again"),
            ("export_order", "Can export orders"),
        ]

    def __str__(self) -> str:
        return gettext("order %(number)s") % {"number": self.pk}

    def get_absolute_url(self) -> str:
        """Return the URL of the buyer's page of the order, which a shop may have elsewhere."""
        return f"/orders/{self.pk}/"

    @property
    def details(self) -> dict[str, Any]:
        """Return what the buyer stated with the order, by name of the field."""
        return {name: getattr(self, name) for name in self.DETAILS}

    @cached_property
    def fee_lines(self) -> list[OrderFee]:
        """Return the fees that the order was opened with, which an order without any never asks."""
        return list(self.fees.order_by("pk")) if self.had_fees else []

    @property
    def had_fees(self) -> bool:
        """Return whether the order was opened with fees, also if they were given back."""
        return self.fee_amount > 0 or self.status in {Status.REFUND_PENDING, Status.REFUNDED}

    @property
    def cancelled_amount(self) -> int:
        """Return the price of the units that were cancelled before the payment."""
        fees = sum(fee.amount for fee in self.fee_lines)
        return sum(line.amount for line in self.lines.all()) + fees - self.amount

    @property
    def quantity(self) -> int:
        """Return the units of all lines together."""
        return sum(line.quantity for line in self.lines.all())

    @property
    def contents(self) -> str:
        """Return quantities and products, such as `2 × Phone, 1 × Watch`."""
        lines = self.lines.all()
        return ", ".join(f"{line.quantity} × {line.sale.local_name}" for line in lines)

    @property
    def sale_id(self) -> int | None:
        """Return the id of the sale; None if the order has several lines."""
        sales = [line.sale_id for line in self.lines.all()]
        return sales[0] if len(sales) == 1 else None


class OrderLine(models.Model):
    """A reservation and its price, written with the order and never changed: the reservation
    records the units that were given back.
    """

    reservation = models.OneToOneField(Reservation, on_delete=models.PROTECT, primary_key=True)
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="lines")
    sale = models.ForeignKey(Sale, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    amount = models.BigIntegerField(help_text="in minor units")
    tax_rate = models.DecimalField(
        max_digits=5, decimal_places=2, db_default=0, help_text="percent, included in the amount"
    )

    class Meta:
        ordering = ("reservation_id",)

    def __str__(self) -> str:
        values = {"units": self.quantity, "sale": self.sale_id, "order": self.order_id}
        return gettext("%(units)s of sale %(sale)s in order %(order)s") % values

    @property
    def tax(self) -> int:
        """Return the tax that the amount includes."""
        return included_tax(self.amount, self.tax_rate)

    @property
    def price(self) -> int:
        """Return the price of one unit."""
        return self.amount // self.quantity

    @property
    def live(self) -> int:
        """Return the units that the buyer has or may still get."""
        if self.reservation.state == Reservation.State.RELEASED:
            return 0
        return self.reservation.quantity - self.reservation.returned

    @property
    def returned(self) -> int:
        """Return the units that were cancelled, returned or expired."""
        return self.quantity - self.live

    @property
    def part_returned(self) -> int:
        """Return the units that were cancelled or returned while the order kept others."""
        return self.returned if any(line.live for line in self.order.lines.all()) else 0


class OrderFee(models.Model):
    """A line of money of an order that is not units, written with the order and never changed:
    `Order.fee_amount` records what was given back.
    """

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="fees")
    name = models.CharField(max_length=100)
    amount = models.BigIntegerField(help_text="in minor units")
    tax_rate = models.DecimalField(
        max_digits=5, decimal_places=2, db_default=0, help_text="percent, included in the amount"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "name"], name="shop_fee_one_per_name"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="shop_fee_of_something"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """Return its name in the visitor's language."""
        return gettext(self.name)

    @property
    def tax(self) -> int:
        """Return the tax that the amount includes."""
        return included_tax(self.amount, self.tax_rate)


class InvoiceSeries(models.Model):
    """The last number of a series; the transaction that draws the next one updates it."""

    name = models.CharField(max_length=11, primary_key=True)
    last = models.BigIntegerField()

    class Meta:
        verbose_name_plural = "invoice series"

    def __str__(self) -> str:
        return f"{self.name}: {self.last}"


class Invoice(models.Model):
    """An invoice or a credit note. Rows are only added (see `shop.orders.invoices`)."""

    class Series(models.TextChoices):
        """Each has numbers of its own, from 1 on and without gaps."""

        INVOICE = "invoice", "invoice"
        CREDIT_NOTE = "credit_note", "credit note"

    series = models.CharField(max_length=11, choices=Series.choices)
    number = models.BigIntegerField()
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="invoices")
    amount = models.BigIntegerField(help_text="in minor units of the order's currency")
    reference = models.CharField(
        max_length=120, blank=True, help_text="of a credit note: the refund that it is for"
    )
    created = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("pk",)
        constraints = [
            models.UniqueConstraint(
                fields=["series", "number"], name="shop_invoice_one_per_number"
            ),
            models.UniqueConstraint(
                fields=["order"], condition=Q(series="invoice"), name="shop_invoice_one_per_order"
            ),
            models.UniqueConstraint(
                fields=["reference"],
                condition=Q(series="credit_note"),
                name="shop_credit_note_one_per_refund",
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="shop_invoice_of_something"),
        ]

    def __str__(self) -> str:
        if self.series == self.Series.CREDIT_NOTE:
            return gettext("Credit note %(number)s") % {"number": self.number}
        return gettext("Invoice %(number)s") % {"number": self.number}


class OrderEvent(models.Model):
    """An event in an order's timeline. Rows are only added.

    The order itself records its opening, so that opening one writes no event.
    """

    class Kind(models.TextChoices):
        """The kind of event. The first ones are those of the steps (`shop.orders.transitions`)."""

        PAID = "paid", "paid"
        PAID_LATE = "paid_late", "paid late, and the units were still there"
        FULFILLED = "fulfilled", "fulfilled"
        EXPIRED = "expired", "expired"
        CANCELLED = "cancelled", "cancelled"
        RETURNED = "returned", "returned"
        TAKEN_BACK = "taken_back", "taken back after it was handed over"
        REFUNDED = "refunded", "refunded"
        RENEWED = "renewed", "held again"
        EXTENDED = "extended", "held for longer"
        PAYMENT_FAILED = "payment_failed", "payment failed"
        PART_CANCELLED = "part_cancelled", "part of it cancelled"
        PART_RETURNED = "part_returned", "part of it returned"
        MONEY_OWED = "money_owed", "paid too late or too much: money goes back"
        MONEY_BACK = "money_back", "money given back"
        GOODWILL = "goodwill", "money goes back as goodwill"
        REFUND_BY_HAND = "refund_by_hand", "money given back by hand at the provider"
        REFUND_FAILED = "refund_failed", "money could not be given back"
        REFUND_REOPENED = "refund_reopened", "money that was given back has come back to the shop"
        PAYMENT_REVERSED = "payment_reversed", "the provider says that the payment failed after all"
        DISPUTED = "disputed", "the buyer's bank demands the money back"
        DISPUTE_WON = "dispute_won", "the dispute is won"
        DISPUTE_LOST = "dispute_lost", "the dispute is lost: the bank has taken the money back"
        MAIL_RESENT = "mail_resent", "mail sent again"

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="events")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    amount = models.BigIntegerField(null=True, help_text="in minor units")
    quantity = models.PositiveIntegerField(null=True)
    line = models.ForeignKey(OrderLine, on_delete=models.PROTECT, null=True)
    key = models.UUIDField(null=True, help_text="idempotency key of what was asked")
    actor = models.CharField(
        max_length=150, blank=True, db_default="", help_text="name of the operator who did it"
    )
    reason = models.CharField(
        max_length=500, blank=True, db_default="", help_text="in the operator's words"
    )
    created = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("pk",)
        constraints = [
            # Lesson 13: an action that must happen once inserts a row under a unique key.
            models.UniqueConstraint(fields=["order", "key"], name="shop_event_one_per_key"),
        ]

    def __str__(self) -> str:
        values = {"order": self.order_id, "event": self.get_kind_display()}
        return gettext("order %(order)s: %(event)s") % values
