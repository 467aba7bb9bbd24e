"""Orders in the admin's list: found by what somebody knows of them, and exported."""

from __future__ import annotations

import csv
import io
import re
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from inventory.models import Reservation
from shop import orders, payments
from shop.admin import export
from shop.catalogue.models import Product
from shop.payments.models import Refund
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.test_staff import an_operator

pytestmark = pytest.mark.django_db(transaction=True)

LIST = reverse("admin:shop_order_changelist")
EXPORT = reverse("admin:shop_order_export")


def a_product(name: str) -> Product:
    return Product.objects.create(name=name, slug=uuid4().hex[:12], list_price=1)


def exported(client, **query):
    """Return the exported rows by column."""
    body = b"".join(client.get(EXPORT, query).streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(body)))


def test_search_finds_an_order_by_what_somebody_knows_of_it(admin_client, fake_provider):
    order = payments.pay(an_order(a_sale(product=a_product("Blue Kettle")), a_buyer()))
    payments.refund(order)
    other = an_order(a_sale(product=a_product("Lamp")))
    known = {
        "number": str(order.pk),
        "sale": str(order.lines.get().sale_id),
        "buyer": order.buyer.username.upper(),
        "address": order.buyer.email.upper(),
        "product": "blue kettle",
        "payment": order.payments.get().intent,
        "refund": Refund.objects.get().number,
        "key": str(Reservation.objects.get(orderline__order=order).key),
    }
    for meaning, term in known.items():
        page = admin_client.get(LIST, {"q": term}).text
        found = {int(pk) for pk in re.findall(r"order/(\d+)/change/[^>]*>\d", page)}
        # Ids of orders and sales are both small numbers: one may be that of another order.
        assert order.pk in found, meaning
        assert other.pk not in found or meaning in {"number", "sale"}, meaning


def test_search_by_address_reads_only_its_buyers_orders(admin_client):
    order = an_order(a_sale())
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(LIST, {"q": order.buyer.email})
    read = [query["sql"] for query in queries if 'FROM "shop_order" WHERE' in query["sql"]]
    assert read
    assert all(f'"buyer_id" IN ({order.buyer_id})' in sql for sql in read)
    assert not any(" OR " in sql for sql in read)


def test_export_has_what_is_left_of_each_line(admin_client, fake_provider, settings):
    settings.CURRENCY = "CNY"
    sale = a_sale(price=1_250, limit=3)
    Product.objects.update(tax_rate=19)
    order = payments.pay(an_order(sale, quantity=3))
    payments.refund(order, orders.Part(1, uuid4()))
    an_order(a_sale())
    [row] = exported(admin_client, status__exact="paid")
    assert row["order"] == str(order.pk)
    assert (row["ordered"], row["units"], row["price"], row["currency"]) == (
        "3",
        "2",
        "12.50",
        "CNY",
    )
    assert (row["tax_rate"], row["tax"]) == ("19.00", "5.99")
    assert (row["status"], row["email"]) == ("paid", order.buyer.email)
    assert len(exported(admin_client)) == 2


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_export_has_no_formula(admin_client, first):
    name = f"{first}HYPERLINK(A1)"
    an_order(a_sale(product=a_product(name)))
    assert exported(admin_client)[0]["product"] == f"'{name}"


def test_export_reads_page_by_page(admin_client, monkeypatch):
    monkeypatch.setattr(export, "AT_ONCE", 2)
    sale = a_sale(stock=5)
    placed = [an_order(sale).pk for _ in range(5)]
    with CaptureQueriesContext(connection) as queries:
        rows = exported(admin_client)
    assert [int(row["order"]) for row in rows] == placed
    assert sum(query["sql"].endswith("LIMIT 2") for query in queries) == 4


def test_export_needs_its_permission_only():
    an_order(a_sale())
    assert an_operator("view_order", "change_order").get(EXPORT).status_code == 403
    assert len(exported(an_operator("export_order"))) == 1


def test_export_with_a_senseless_filter_is_refused(admin_client):
    assert admin_client.get(EXPORT, {"created__year": "99999999"}).status_code == 400
