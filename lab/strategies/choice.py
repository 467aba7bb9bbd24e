"""Which strategy sells a sale."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from lab.models import SaleStrategy
from lab.strategies import DEFAULT
from shop.catalogue import sales
from shop.catalogue.models import Sale


def open_sale(*, strategy: str = DEFAULT, **terms: Any) -> Sale:
    """Create a sale that is sold by a strategy.

    Args:
        strategy: its name.
        terms: of `shop.catalogue.sales.open_sale`.

    Raises:
        ValidationError: an argument is invalid; nothing was created.
    """
    with transaction.atomic():
        sale = sales.open_sale(**terms)
        choose(sale, strategy)
    return sale


def choose(sale: Sale, strategy: str) -> None:
    """Let a sale be sold by a strategy from now on; web processes follow within a second.

    Raises:
        ValidationError: there is no such strategy, or it is not allowed.
    """
    chosen = SaleStrategy(sale=sale, name=strategy)
    chosen.clean_fields()
    chosen.clean()
    SaleStrategy.objects.update_or_create(sale=sale, defaults={"name": strategy})


def chosen(sale: int) -> str:
    """Return the name of a sale's strategy as the database has it now."""
    found = SaleStrategy.objects.filter(sale=sale).values_list("name", flat=True).first()
    return found or DEFAULT
