"""Tables for the comparison strategies and demonstrations only."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from inventory.models import Item


class UnenforcedItem(models.Model):
    """An item whose books may be unbalanced, so that an oversell can be shown.

    The database function ``inventory_books_enforced`` reads this table: see
    ``migrations/0002_unenforced_items.sql``.
    """

    item = models.OneToOneField(Item, on_delete=models.CASCADE, primary_key=True)

    def __str__(self) -> str:
        return f"item {self.item_id}, whose books are not enforced"

    @staticmethod
    def add(item: int) -> None:
        """Stop enforcing an item's books, from this transaction's commit on.

        Call it after the item's row was written: otherwise concurrent purchases wait for each other
        here instead of there, and do not race.
        """
        UnenforcedItem.objects.bulk_create([UnenforcedItem(item_id=item)], ignore_conflicts=True)


class StockUnit(models.Model):
    """A unit put on sale for the strategy ``unit_rows``; deleted when it is sold."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE)

    def __str__(self) -> str:
        return f"a unit of item {self.item_id}"


class StockBucket(models.Model):
    """A part of an item's stock for the strategy ``buckets``. The buckets add up to the available
    units, except for those returned since the buckets were last filled.
    """

    pk = models.CompositePrimaryKey("item_id", "number")
    item = models.ForeignKey(Item, on_delete=models.CASCADE)
    number = models.PositiveSmallIntegerField()
    available = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(available__gte=0), name="lab_stockbucket_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.available} of item {self.item_id} in bucket {self.number}"
