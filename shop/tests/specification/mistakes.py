"""What operators type wrongly: each form and command says so, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Model
from django.urls import reverse

from inventory.models import Item
from shop.catalogue.models import Product
from shop.catalogue.models import Sale as SaleRow
from shop.specification.order import Sale
from shop.tests.specification.operator import Operator
from shop.tests.specification.page import forms, read

PRICES = ("", "-1", "1.0001", "x", "NaN", "1e30")
LONG_AGO = {"ends_at_0": "2000-01-01"}
WRONG: dict[str, list[dict[str, str]]] = {
    "shop_sale_change": [
        *({"price": price} for price in PRICES),
        *({"limit": limit} for limit in ("", "0", "-1", "1.5")),
        *({"hold": hold} for hold in ("", "-1", "x", "99999999 00:00:00")),
        LONG_AGO,
    ],
    "shop_product_change": [*({"list_price": price} for price in PRICES), {"slug": "not a slug"}],
    "inventory_item_restock": [{"units": units} for units in ("", "0", "-1", "1.5", "x", "9" * 20)],
}
OPTIONS = {
    "create_sale": (
        *("--price=-1", "--price=1.001", "--price=NaN", "--price=1e30", "--stock=-1"),
        *("--price=Infinity", f"--stock={2**70}", "--starts-in=1e12", "--starts-in=nan"),
        *("--stock=1.5", "--limit=0", "--limit=-1", "--hold=0", "--hold=-1", "--no-such-option"),
        *("--hold=1e12", "--hold=1e30", "--hold=nan"),
    ),
    "audit": ("--sale=0", "--sale=-1", f"--sale={2**40}", "--sale=x", "--no-such-option"),
    "after_restore": ("--skip=0", "--skip=-1", f"--skip={2**63}", "--skip=x"),
    "export_metrics": ("--port=-1", "--port=65536", "--port=x", "--bind=not an address"),
}


def make_mistakes(operator: Operator, sale: Sale) -> None:
    """Type wrong values into each form about a sale, and give commands some."""
    row, before = operator.world.rows[sale], _written()
    numbers = {"inventory_item_restock": row.item_id, "shop_product_change": row.product_id}
    for name, wrong in WRONG.items():
        where = reverse(f"admin:{name}", args=[numbers.get(name, row.pk)])
        page = read(operator.browser.get(where).content.decode())
        [form] = [f for f in forms(page, where) if wrong[0].keys() <= f.values.keys()]
        for values in wrong:
            answer = operator.browser.post(where, {**form.values, **values})
            assert answer.status_code == 200, (name, values, "was taken")
            assert list(read(answer.content.decode()).all("ul", css="errorlist")), values
    for command, options in OPTIONS.items():
        for option in options:
            named = option.partition("=")[0].strip("-") if command == "create_sale" else None
            with pytest.raises(CommandError, match=named):
                call_command(command, option)
    assert _written() == before


def _written() -> dict[type[Model], list[Any]]:
    return {kind: list(kind.objects.order_by("pk").values()) for kind in (SaleRow, Product, Item)}
