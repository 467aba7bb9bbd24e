"""Products, and their sales with a price and a window."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import get_language, gettext

from inventory.models import Item
from shop.money import MAX_AMOUNT, check_currency, default_currency, plain

CURRENCY = "^[A-Z]{3}$"

MAX_HOLD = timedelta(days=365)
"""Longest time to pay. With a far longer one no deadline is a date, so no purchase succeeds."""


class Product(models.Model):
    """A product of the catalogue.

    Its name and description are in the shop's first language; `ProductText` has the others.
    """

    name = models.CharField(max_length=200)
    slug = models.SlugField(unique=True)
    description = models.TextField(blank=True)
    list_price = models.BigIntegerField(
        validators=[MinValueValidator(0)], help_text="in minor units"
    )
    currency = models.CharField(max_length=3, default=default_currency, validators=[check_currency])
    tax_rate = models.DecimalField(
        max_digits=5,
        decimal_places=2,
        default=Decimal(0),
        db_default=0,
        validators=[MinValueValidator(0)],
        help_text="percent, included in prices; orders keep the rate that they were placed at",
    )

    def __str__(self) -> str:
        return self.name

    @property
    def local_name(self) -> str:
        """The name in the visitor's language, if there is one."""
        text = self._local_text()
        return (text and text.name) or self.name

    @property
    def local_description(self) -> str:
        """The description in the visitor's language, if there is one."""
        text = self._local_text()
        return (text and text.description) or self.description

    def _local_text(self) -> ProductText | None:
        if reads_first_language():
            return None
        language = get_language()
        return next((text for text in self.texts.all() if text.language == language), None)


class ProductText(models.Model):
    """A product's name and description in one of the shop's other languages."""

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="texts")
    language = models.CharField(max_length=10, help_text="a code of SHOP_LANGUAGES")
    name = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["product", "language"], name="shop_product_text_one_per_language"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.language})"


def reads_first_language() -> bool:
    """Return whether the visitor reads the shop's first language, that of `Product.name`."""
    return get_language() in {None, settings.LANGUAGE_CODE}


def local_texts(product: str) -> tuple[str, ...]:
    """Return what to prefetch for products' names in the visitor's language.

    Args:
        product: the lookup of the product, such as `sale__product`.
    """
    return () if reads_first_language() else (f"{product}__texts",)


class Sale(models.Model):
    """A product on sale: price, window and limit per buyer."""

    class Kind(models.TextChoices):
        """How its units find their buyers."""

        FIRST_COME = "first_come", "first come, first served"
        DRAW = "draw", "draw among those who enter"

    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    price = models.BigIntegerField(
        validators=[MinValueValidator(0)], help_text="of a unit, in minor units"
    )
    currency = models.CharField(max_length=3, default=default_currency, validators=[check_currency])
    limit = models.PositiveIntegerField(
        default=1, validators=[MinValueValidator(1)], help_text="units a buyer may have"
    )
    kind = models.CharField(
        max_length=10, choices=Kind.choices, default=Kind.FIRST_COME, db_default=Kind.FIRST_COME
    )
    starts_at = models.DateTimeField(db_default=Now())
    ends_at = models.DateTimeField()
    early_starts_at = models.DateTimeField(
        null=True, blank=True, help_text="when it opens for those who may buy earlier"
    )
    early_group = models.ForeignKey(
        Group,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,
        db_constraint=False,  # it would lock both tables during an update
        help_text="its members may buy earlier",
    )
    early_code = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="who gives it may buy earlier",
    )
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
    action_hold = models.DurationField(
        default=timedelta(minutes=10),
        db_default=timedelta(minutes=10),
        validators=[MinValueValidator(timedelta(0)), MaxValueValidator(MAX_HOLD)],
        help_text="time for the buyer's part of a payment, from its beginning; all in all, an "
        "order is held for at most both times",
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
                condition=Q(early_starts_at__isnull=True) | Q(early_starts_at__lt=F("starts_at")),
                name="shop_sale_early_before_start",
                violation_error_message="Early buyers must come before the sale starts.",
            ),
            models.CheckConstraint(
                condition=Q(hold__gt=timedelta(0)),
                name="shop_sale_hold_positive",
                violation_error_message="The time to pay (hold) must be longer than zero.",
            ),
        ]
        permissions = [("stop_sale", "Can stop sales and refund all their orders")]
        indexes = [
            # The home page reads from its ends: what is not over yet, and what ended last.
            models.Index(
                fields=["ends_at", "id"], name="shop_sale_listed_by_end", condition=Q(listed=True)
            ),
        ]

    def __str__(self) -> str:
        price = plain(self.price, self.currency)
        return gettext("%(product)s at %(price)s") % {"product": self.product, "price": price}

    def clean(self) -> None:
        """Refuse a price at which the units that a buyer may have cost more than can be counted."""
        super().clean()
        given = self.price is not None and self.limit is not None
        if given and self.price * self.limit > MAX_AMOUNT:
            text = gettext("%(limit)s units, the limit per buyer, would cost too much.")
            raise ValidationError({"price": text % {"limit": self.limit}})

    def get_absolute_url(self) -> str:
        """The sale's page."""
        return reverse("sale", args=[self.pk])

    @property
    def name(self) -> str:
        """Return the name of what is sold, in the shop's first language. A shop that sells sizes
        adds them here.
        """
        return self.product.name

    @property
    def local_name(self) -> str:
        """Return what is sold, in the visitor's language."""
        return self.product.local_name
