"""Products, and their sales with a price and a window."""

from __future__ import annotations

from datetime import timedelta

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import get_language

from inventory.models import Item
from shop.money import check_currency, default_currency, plain

CURRENCY = "^[A-Z]{3}$"

MAX_HOLD = timedelta(days=365)
"""Longest time to pay. With a far longer one no deadline is a date, so no purchase succeeds."""


class Product(models.Model):
    """A product of the catalogue."""

    name = models.CharField(max_length=200)
    name_zh = models.CharField(
        "Chinese name", max_length=200, blank=True, db_default="", default=""
    )
    slug = models.SlugField(unique=True)
    description = models.TextField(blank=True)
    description_zh = models.TextField("Chinese description", blank=True, db_default="", default="")
    list_price = models.BigIntegerField(
        validators=[MinValueValidator(0)], help_text="in minor units"
    )
    currency = models.CharField(max_length=3, default=default_currency, validators=[check_currency])

    def __str__(self) -> str:
        return self.name

    @property
    def local_name(self) -> str:
        """The name in the visitor's language, if there is one."""
        return (_reads_chinese() and self.name_zh) or self.name

    @property
    def local_description(self) -> str:
        """The description in the visitor's language, if there is one."""
        return (_reads_chinese() and self.description_zh) or self.description


def _reads_chinese() -> bool:
    return (get_language() or "").startswith("zh")


class Sale(models.Model):
    """A product on sale: price, window and limit per buyer."""

    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    price = models.BigIntegerField(
        validators=[MinValueValidator(0)], help_text="of a unit, in minor units"
    )
    currency = models.CharField(max_length=3, default=default_currency, validators=[check_currency])
    limit = models.PositiveIntegerField(
        default=1, validators=[MinValueValidator(1)], help_text="units a buyer may have"
    )
    starts_at = models.DateTimeField(db_default=Now())
    ends_at = models.DateTimeField()
    paused = models.BooleanField(default=False, help_text="nothing is sold while it is set")
    listed = models.BooleanField(
        default=True,
        db_default=True,
        help_text="shown on the home page; otherwise only those who have its address find it",
    )
    hold = models.DurationField(
        default=timedelta(minutes=15),
        validators=[MaxValueValidator(MAX_HOLD)],
        help_text="time to pay, before the units go back",
    )
    restock_cancelled = models.BooleanField(
        default=True,
        help_text="units of cancelled orders are sold again; otherwise they are written off",
    )
    restock_returned = models.BooleanField(
        default=True,
        help_text="units of returned orders are sold again; otherwise they are written off",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(price__gte=0), name="shop_sale_price_not_negative"),
            models.CheckConstraint(
                condition=Q(currency__regex=CURRENCY), name="shop_sale_currency_is_a_code"
            ),
            models.CheckConstraint(condition=Q(limit__gte=1), name="shop_sale_limit_positive"),
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")),
                name="shop_sale_ends_after_start",
                violation_error_message="A sale must end after it starts.",
            ),
            models.CheckConstraint(
                condition=Q(hold__gt=timedelta(0)),
                name="shop_sale_hold_positive",
                violation_error_message="The time to pay (hold) must be longer than zero.",
            ),
        ]
        indexes = [
            # The home page reads from its ends: what is not over yet, and what ended last.
            models.Index(
                fields=["ends_at", "id"], name="shop_sale_listed_by_end", condition=Q(listed=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.product} at {plain(self.price, self.currency)}"

    def get_absolute_url(self) -> str:
        """The sale's page."""
        return reverse("sale", args=[self.pk])
