"""Draws, the chain of their entries, and the places."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from shop.catalogue.models import Sale
from shop.orders.models import Order

REVEAL_WITHIN = timedelta(hours=1)
"""A draw whose seed is not revealed this long after its end counts as failed."""


class Draw(models.Model):
    """The draw of a sale: what was committed to, the head of the chain, and what was published.

    `lines` and `head` change with every batch of entries, guarded by the old number, until `closed`
    is set. The other columns are set once, each by an update that requires the one before.
    """

    sale = models.OneToOneField(Sale, on_delete=models.PROTECT, primary_key=True)
    commitment = models.BinaryField(help_text="SHA-256 of the seed")
    sealed = models.BinaryField(
        editable=False, help_text="the seed, encrypted under the secret key"
    )
    nonce = models.BinaryField(editable=False, help_text="of the encryption and of the addresses")
    source = models.CharField(
        max_length=200,
        blank=True,
        db_default="",
        default="",
        help_text="where the public value comes from; empty: there is none",
    )
    per_address = models.BooleanField(
        db_default=False,
        default=False,
        help_text="an entry must state an address, and an address enters once",
    )
    announced = models.DateTimeField(db_default=Now())
    lines = models.BigIntegerField(
        db_default=0, editable=False, help_text="entries and withdrawals"
    )
    head = models.BinaryField(editable=False, help_text="the running hash after the last line")
    closed = models.DateTimeField(null=True, editable=False)
    seed = models.BinaryField(null=True, editable=False, help_text="revealed after the close")
    revealed = models.DateTimeField(null=True, editable=False)
    public_value = models.CharField(max_length=500, blank=True, db_default="", default="")
    valued = models.DateTimeField(null=True, editable=False)
    places = models.BigIntegerField(null=True, editable=False, help_text="entries that have one")
    offered = models.BigIntegerField(
        db_default=0, editable=False, help_text="up to this place, each got a reservation"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(seed=None) | Q(closed__isnull=False),
                name="draws_draw_seed_after_close",
            ),
            models.CheckConstraint(
                condition=Q(public_value="") | Q(closed__isnull=False),
                name="draws_draw_value_after_close",
            ),
            models.CheckConstraint(
                condition=Q(places=None) | Q(seed__isnull=False),
                name="draws_draw_places_after_seed",
            ),
            models.CheckConstraint(
                condition=Q(offered=0) | Q(offered__lte=models.F("places")),
                name="draws_draw_offered_within_places",
            ),
        ]

    def __str__(self) -> str:
        return f"draw of sale {self.sale_id}"

    def get_absolute_url(self) -> str:
        """The draw's page."""
        return reverse("draw", args=[self.sale_id])

    def status(self, now: datetime) -> str:
        """Return where the draw stands at a moment of the database's clock.

        `not_started`, `paused`, `open`; then `closed`, `awaiting_value` (the public value is not
        known yet) and `drawn`; or `failed`: the shop has not revealed the seed in time.
        """
        if self.closed is None and now < self.sale.starts_at:
            return "not_started"
        if self.closed is None and now < self.sale.ends_at:
            return "paused" if self.sale.paused else "open"
        if self.seed is None:
            return "closed" if now < self.sale.ends_at + REVEAL_WITHIN else "failed"
        if self.places is None:
            return "awaiting_value" if self.source and not self.public_value else "closed"
        return "drawn"


class Entry(models.Model):
    """A buyer's entry: a line of the chain, and the line that withdrew it, if there is one."""

    # No index of its own: the one on draw and number begins with it.
    draw = models.ForeignKey(Draw, on_delete=models.PROTECT, db_index=False)
    number = models.BigIntegerField(help_text="of its line, from 1")
    buyer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False)
    address = models.BinaryField(null=True, help_text="a hash of the address that was stated")
    secret = models.BinaryField(help_text="of the receipt")
    mark = models.BinaryField(help_text="what the public list says of it")
    hash = models.BinaryField(help_text="the running hash after its line")
    created = models.DateTimeField()
    withdrawal = models.BigIntegerField(null=True, help_text="number of the line that withdrew it")
    withdrawal_hash = models.BinaryField(null=True, help_text="the running hash after that line")

    class Meta:
        verbose_name_plural = "entries"
        constraints = [
            models.UniqueConstraint(fields=["draw", "number"], name="draws_entry_one_per_number"),
            models.UniqueConstraint(
                fields=["draw", "buyer"],
                condition=Q(withdrawal=None),
                name="draws_entry_one_per_buyer",
            ),
            models.UniqueConstraint(
                fields=["draw", "address"],
                condition=Q(withdrawal=None, address__isnull=False),
                name="draws_entry_one_per_address",
            ),
            models.UniqueConstraint(
                fields=["draw", "withdrawal"],
                condition=Q(withdrawal__isnull=False),
                name="draws_entry_one_per_withdrawal",
            ),
            models.CheckConstraint(
                condition=Q(withdrawal=None) | Q(withdrawal__gt=models.F("number")),
                name="draws_entry_withdrawn_after",
            ),
        ]
        indexes = [models.Index(fields=["buyer", "draw"], name="draws_entry_of_buyer")]

    def __str__(self) -> str:
        return f"entry {self.number} of {self.draw_id}"


class Place(models.Model):
    """An entry's place, computed once, and the order of its winner."""

    # Without the database's checks of references: one statement makes a million rows of entries,
    # which are never deleted, and checking each would take several times as long.
    entry = models.OneToOneField(
        Entry, on_delete=models.PROTECT, primary_key=True, db_constraint=False
    )
    draw = models.ForeignKey(Draw, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    place = models.BigIntegerField(help_text="from 1")
    order = models.OneToOneField(Order, on_delete=models.PROTECT, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["draw", "place"], name="draws_place_one_per_place"),
        ]

    def __str__(self) -> str:
        return f"place {self.place} of draw {self.draw_id}"
