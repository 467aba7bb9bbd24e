"""Three ways to open a sale: by a command, by the operator's forms, and as a program does."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, override_settings
from django.urls import reverse

from inventory.models import Item
from shop.catalogue.models import Product
from shop.catalogue.models import Sale as SaleRow
from shop.catalogue.sales import database_time, open_sale
from shop.specification.order import Sale
from shop.tests.specification import words
from shop.tests.specification.translations import CHINESE
from shop.tests.specification.words import figure


def by_command(sale: Sale) -> SaleRow:
    """Open a sale of the phone by `create_sale`."""
    _check_currencies()
    out, price = StringIO(), figure(sale.price, sale.currency, grouped=False)
    as_json = sale.total % 2 == 0
    with connection.cursor() as cursor:  # let the item have another number than the sale
        cursor.execute("SELECT nextval(pg_get_serial_sequence('inventory_item', 'id'))")
    call_command(
        *("create_sale", *["--json"] * as_json, f"--stock={sale.total}", f"--limit={sale.limit}"),
        *(f"--price={price}", f"--hold={sale.hold}", f"--starts-in={sale.opens + 7}"),
        stdout=out,
    )
    row = SaleRow.objects.latest("pk")
    said = f"Sale {row.pk} of item {row.item_id}: {sale.total} units."
    assert out.getvalue().strip() == (
        json.dumps({"sale": row.pk, "item": row.item_id}) if as_json else said
    )
    starts_in = (row.starts_at - database_time()).total_seconds()
    assert 0 < starts_in - sale.opens <= 7
    assert row.ends_at - row.starts_at == timedelta(days=1)
    return row


def _check_currencies() -> None:
    """Compare the prices of sales by `create_sale` in shops of other currencies; keep none."""
    for currency, price in (("JPY", 1_250), ("KWD", 1_250_000), ("CNY", 125_000)):
        with override_settings(CURRENCY=currency), transaction.atomic():
            call_command("create_sale", "--price=1250", stdout=StringIO())
            row = SaleRow.objects.latest("pk")
            assert (row.price, row.currency) == (price, currency)
            transaction.set_rollback(True)


def by_forms(sale: Sale, staff: Client) -> SaleRow:
    """Open a sale by the forms of the admin: the product, its stock, and the sale."""
    product = {
        "name": sale.name,
        "name_zh": CHINESE[sale.name],
        "description": (about := words.ABOUT_SALE[sale.name]),
        "description_zh": CHINESE[about],
        "slug": uuid4().hex,
        "list_price": figure(sale.list_price, words.listed_in(sale), grouped=False),
        "currency": words.listed_in(sale),
    }
    _add(staff, "shop_product", product)
    _add(staff, "inventory_item", {"name": sale.name, "units": sale.total})
    item = Item.objects.latest("pk")
    begins = database_time()
    rules = {
        "restock_cancelled": sale.resells_cancelled,
        "restock_returned": sale.resells_returned,
    }
    form: dict[str, Any] = {
        "product": Product.objects.get(slug=product["slug"]).pk,
        "item": item.pk,
        "price": figure(sale.price, sale.currency, grouped=False),
        "currency": sale.currency,
        "limit": sale.limit,
        "hold": f"00:{sale.hold // 60:02}:{sale.hold % 60:02}",
        **{name: "on" for name, value in rules.items() if value},
    }
    for name, when in (("starts_at", begins), ("ends_at", begins + timedelta(days=1))):
        form |= {f"{name}_0": f"{when:%Y-%m-%d}", f"{name}_1": f"{when:%H:%M:%S}"}
    _add(staff, "shop_sale", form)
    return SaleRow.objects.get(item=item)


def _add(staff: Client, model: str, form: dict[str, Any]) -> None:
    answer = staff.post(reverse(f"admin:{model}_add"), form, follow=True)
    assert "was added successfully" in answer.content.decode()


def by_a_program(sale: Sale) -> SaleRow:
    """Open a sale by the function that programs call."""
    about = words.ABOUT_SALE[sale.name]
    product = Product.objects.create(
        name=sale.name,
        name_zh=CHINESE[sale.name],
        description=about,
        description_zh=CHINESE[about],
        slug=uuid4().hex,
        list_price=sale.list_price,
        currency=sale.currency,
    )
    return open_sale(
        stock=sale.total,
        price=sale.price,
        limit=sale.limit,
        currency=sale.currency,
        product=product,
        hold=timedelta(seconds=sale.hold),
        restock_cancelled=sale.resells_cancelled,
        restock_returned=sale.resells_returned,
    )
