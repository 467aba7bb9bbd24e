"""Tables for the comparison strategies and demonstrations only."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models

from inventory.models import Item
from shop.catalogue.models import Sale


def strategy_choices() -> list[tuple[str, str]]:
    """Return the names of all strategies; a function keeps them out of migrations."""
    from lab.strategies import CLASSES  # which use this module's tables

    return [(name, name) for name in CLASSES]


class SaleStrategy(models.Model):
    """How a sale is sold, unless by `combining`."""

    sale = models.OneToOneField(Sale, on_delete=models.CASCADE, primary_key=True)
    name = models.CharField("strategy", max_length=20, choices=strategy_choices)

    class Meta:
        verbose_name_plural = "sale strategies"

    def __str__(self) -> str:
        return f"sale {self.sale_id}, sold by {self.name}"

    def clean(self) -> None:
        """Refuse a strategy that oversells, unless the settings allow it."""
        from lab.strategies import CLASSES

        kind = CLASSES.get(self.name)
        if kind and not kind.safe and not settings.SHOP_ALLOW_UNSAFE_STRATEGIES:
            raise ValidationError(
                f"The strategy {self.name!r} oversells; it is for demonstrations only."
            )


class ControlRoom(models.Model):
    """No table: the permissions for the control room's buttons, which the admin gives out."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = (
            ("send_buyers", "Can send buyers to sales, and let strategies duel"),
            ("break_parts", "Can inject faults, heal them, and change the provider's mode"),
        )


class UnenforcedItem(models.Model):
    """An item whose books may be unbalanced, so that an oversell can be shown.

    A migration of the lab replaces the database function that checks the books by one that reads
    this table (`migrations/0003_unbalanced_books.py`).
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
