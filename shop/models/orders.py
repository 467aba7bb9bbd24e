"""Orders: what was reserved together, is paid together, and where that stands."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from inventory.models import Reservation
from shop.models.catalogue import Sale


class Orders(models.QuerySet["Order"]):
    """Orders, with what is often asked of them."""

    def with_lines(self) -> Orders:
        """With their lines and what those are of, read in one query for all."""
        lines: QuerySet[OrderLine] = OrderLine.objects.select_related("sale__product")
        return self.prefetch_related(models.Prefetch("lines", lines.order_by("pk")))


class Order(models.Model):
    """What a buyer reserved and is to pay. Opened in its reservations' transaction.

    What it is of stands in its lines, one for each reservation: one for a purchase, several for
    a cart.
    """

    class Status(models.TextChoices):
        """Where an order stands; only guarded updates move it."""

        AWAITING_PAYMENT = "awaiting_payment", "awaiting payment"
        PAID = "paid", "paid"
        EXPIRED = "expired", "expired"
        CANCELLED = "cancelled", "cancelled"
        REFUNDED = "refunded", "refunded"

    buyer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    status = models.CharField(
        max_length=16, choices=Status.choices, default=Status.AWAITING_PAYMENT
    )
    pay_before = models.DateTimeField()
    created = models.DateTimeField(db_default=Now())

    objects = Orders.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    status__in=["awaiting_payment", "paid", "expired", "cancelled", "refunded"]
                ),
                name="shop_order_status_known",
            ),
        ]

    def __str__(self) -> str:
        return f"order {self.pk}"

    def get_absolute_url(self) -> str:
        """The order's page, for its buyer."""
        return reverse("order", args=[self.pk])

    def each_line(self) -> Iterable[OrderLine]:
        """What it is of."""
        return self.lines.all()

    @property
    def quantity(self) -> int:
        """Units, of all lines together."""
        return sum(line.quantity for line in self.lines.all())

    @property
    def sale_id(self) -> int | None:
        """Id of the sale; None if the order has several lines."""
        sales = [line.sale_id for line in self.lines.all()]
        return sales[0] if len(sales) == 1 else None


class OrderLine(models.Model):
    """A reservation and what is to be paid for it. Written with its order and never changed."""

    reservation = models.OneToOneField(Reservation, on_delete=models.PROTECT, primary_key=True)
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="lines")
    sale = models.ForeignKey(Sale, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    amount = models.DecimalField(max_digits=14, decimal_places=2)

    def __str__(self) -> str:
        return f"{self.quantity} of sale {self.sale_id} in order {self.order_id}"
