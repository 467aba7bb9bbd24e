"""Stock as rows. Database constraints hold every rule that the data must obey.

Only triggers write `Item.reserved` and `Item.ledger` (`migrations/0001_books.sql`). At every
commit, a deferred constraint compares the units taken with the reservations and the ledger. Code
that returns stock twice or forgets a movement cannot commit, this package included.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext


class Item(models.Model):
    """A product's stock: one row, and the row that all buyers contend for in a sale."""

    name = models.CharField(max_length=200)
    total = models.BigIntegerField(help_text="units stocked and not written off")
    available = models.BigIntegerField(help_text="units that may still be reserved")
    reserved = models.BigIntegerField(
        default=0, editable=False, help_text="units held or confirmed; kept by a trigger"
    )
    ledger = models.BigIntegerField(
        default=0, editable=False, help_text="sum of the movements; kept by a trigger"
    )
    fence = models.BigIntegerField(
        default=0, editable=False, help_text="highest fencing token that wrote here"
    )
    version = models.BigIntegerField(
        default=0, editable=False, help_text="counts changes of available, to put them in order"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(available__gte=0), name="inventory_item_available_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(available__lte=F("total")), name="inventory_item_available_within_total"
            ),
        ]
        permissions = [("correct_stock", "Can correct the stock of items")]

    def __str__(self) -> str:
        values = {"item": self.name, "available": self.available, "total": self.total}
        return gettext("%(item)s (%(available)s of %(total)s)") % values


class Reservation(models.Model):
    """Units held for a buyer until a deadline: held, then confirmed or released.

    A held or confirmed reservation has `quantity - returned` live units, a released one none.
    The quantity never changes, because a repeated key must match it.
    """

    class State(models.TextChoices):
        """The state of a reservation; only guarded updates change it."""

        HELD = "held", "held"
        CONFIRMED = "confirmed", "confirmed"
        RELEASED = "released", "released"

    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    scope = models.BigIntegerField(help_text="what the limit applies to; the shop's sale")
    buyer = models.BigIntegerField(help_text="the shop's buyer")
    key = models.UUIDField(help_text="idempotency key, the buyer's own")
    quantity = models.PositiveIntegerField(help_text="units granted; never changes")
    returned = models.PositiveIntegerField(
        db_default=0, help_text="of these, units given back while the others were kept"
    )
    state = models.CharField(max_length=9, choices=State.choices, default=State.HELD)
    token = models.BigIntegerField(null=True, help_text="fencing token it was granted under")
    deadline = models.DateTimeField(help_text="when a held reservation may be released")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["buyer", "key"], name="inventory_reservation_one_per_key"
            ),
            models.CheckConstraint(
                condition=Q(quantity__gte=1), name="inventory_reservation_quantity_positive"
            ),
            models.CheckConstraint(
                condition=Q(returned__lt=F("quantity")),
                name="inventory_reservation_some_kept",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["held", "confirmed", "released"]),
                name="inventory_reservation_state_known",
            ),
        ]
        indexes = [
            # The sweep reads held reservations only, so the index contains only those.
            models.Index(
                fields=["deadline"], condition=Q(state="held"), name="inventory_reservation_due"
            ),
        ]

    def __str__(self) -> str:
        values = {
            "units": self.quantity,
            "item": self.item_id,
            "buyer": self.buyer,
            "state": self.get_state_display(),
        }
        return gettext("%(units)s of item %(item)s for buyer %(buyer)s: %(state)s") % values


class BuyerQuota(models.Model):
    """The units of a limit that a buyer has used in a scope. The row guards the limit.

    For a further quota of a purchase, such as one per address, `buyer` is the quota's subject.
    """

    pk = models.CompositePrimaryKey("scope", "buyer")
    scope = models.BigIntegerField()
    buyer = models.BigIntegerField()
    used = models.PositiveIntegerField()
    allowed = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(used__gte=0) & Q(used__lte=F("allowed")),
                name="inventory_buyerquota_within_limit",
            ),
        ]

    def __str__(self) -> str:
        values = {
            "buyer": self.buyer,
            "scope": self.scope,
            "used": self.used,
            "allowed": self.allowed,
        }
        return gettext("buyer %(buyer)s in %(scope)s: %(used)s of %(allowed)s") % values


class ReservationQuota(models.Model):
    """A quota besides the buyer's limit that a reservation's live units count against."""

    pk = models.CompositePrimaryKey("scope", "subject", "reservation")
    reservation = models.ForeignKey(Reservation, on_delete=models.CASCADE, related_name="quotas")
    scope = models.BigIntegerField()
    subject = models.BigIntegerField()

    def __str__(self) -> str:
        return f"reservation {self.reservation_id} in {self.scope} for {self.subject}"


class StockMovement(models.Model):
    """A ledger entry. Rows are only added; their sum is what is available."""

    class Reason(models.TextChoices):
        """Why `available` changed."""

        RESTOCK = "restock", "restock"
        SALE = "sale", "sale"
        RELEASE = "release", "release"
        RECLAIM = "reclaim", "taken again"
        WRITE_OFF = "write_off", "written off"

    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    delta = models.BigIntegerField()
    reason = models.CharField(max_length=10, choices=Reason.choices)
    token = models.BigIntegerField(
        null=True, help_text="fencing token of the writer, if it had one"
    )
    note = models.CharField(
        max_length=700, blank=True, db_default="", help_text="who corrected the stock, and why"
    )
    created = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        values = {
            "delta": f"{self.delta:+}",
            "item": self.item_id,
            "reason": self.get_reason_display(),
        }
        return gettext("%(delta)s of item %(item)s: %(reason)s") % values


class OutboxMessage(models.Model):
    """Work that must follow a commit, written in the same commit.

    `done` is set by the consumer's transaction, not by publishing: a broker may lose messages.
    `dead` means that all attempts failed; the row stays until an operator retries it.
    """

    topic = models.CharField(max_length=50)
    key = models.CharField(
        max_length=100,
        blank=True,
        db_default="",
        help_text="what it is about: one message per topic and key",
    )
    queue = models.CharField(
        max_length=20, blank=True, db_default="", help_text="which workers handle it"
    )
    payload = models.JSONField()
    created = models.DateTimeField(db_default=Now())
    done = models.DateTimeField(null=True, blank=True)
    dead = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(db_default=0)
    not_before = models.DateTimeField(db_default=Now(), help_text="back-off after a failure")
    error = models.TextField(blank=True, db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["key", "topic"], condition=~Q(key=""), name="inventory_outbox_one_per_key"
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "not_before"],
                condition=Q(done__isnull=True, dead__isnull=True),
                name="inventory_outbox_todo",
            ),
            models.Index(
                fields=["dead"], condition=Q(dead__isnull=False), name="inventory_outbox_dead"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.key or self.pk}"
