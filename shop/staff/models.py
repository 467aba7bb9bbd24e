"""Sales that staff have stopped, to give all of their orders back."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext

from shop.catalogue.models import Sale


class SaleStop(models.Model):
    """A stopped sale, whose orders are cancelled and refunded in the background.

    See `shop.staff.stopping`.
    """

    sale = models.ForeignKey(Sale, on_delete=models.PROTECT, related_name="stops")
    actor = models.CharField(max_length=150, help_text="name of the operator who did it")
    reason = models.CharField(max_length=500, help_text="in the operator's words")
    handed_over = models.BooleanField(
        help_text="orders that were handed over are refunded, too, and their units come back"
    )
    started = models.DateTimeField(db_default=Now())
    finished = models.DateTimeField(null=True, blank=True)
    found = models.PositiveIntegerField(db_default=0, help_text="orders that were given back")
    round = models.PositiveIntegerField(db_default=1, help_text="how often the orders are read")
    last = models.BigIntegerField(db_default=0, help_text="order up to which this round has read")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["sale"], condition=Q(finished__isnull=True), name="shop_salestop_one_open"
            ),
        ]

    def __str__(self) -> str:
        return gettext("stop of sale %(sale)s") % {"sale": self.sale_id}
