"""The admin's form that makes a product, its stock and its sale: all or none."""

from __future__ import annotations

import pytest
from django.urls import reverse

from inventory.models import Item
from shop.catalogue.models import Product, Sale
from shop.tests.catalogue import an_order
from shop.tests.test_staff import an_operator
from shop.tests.twice import post_twice

pytestmark = pytest.mark.django_db(transaction=True)

NEW = reverse("admin:shop_sale_new")
FORM = {
    "name": "Blue Kettle",
    "slug": "",
    "units": "7",
    "list_price": "20",
    "price": "9.50",
    "currency": "EUR",
    "limit": "2",
    "starts_at_0": "2026-01-05",
    "starts_at_1": "10:00:00",
    "ends_at_0": "2099-01-05",
    "ends_at_1": "10:00:00",
    "minutes": "20",
    "listed": "on",
}


def test_new_sale_makes_product_stock_and_sale_once():
    operator = an_operator("add_product", "add_sale", "add_item")
    assert operator.get(NEW).status_code == 200
    assert operator.post(NEW, FORM).status_code == 302
    sale = Sale.objects.get()
    assert (sale.price, sale.currency, sale.limit) == (950, "EUR", 2)
    assert sale.hold.total_seconds() == 1200
    assert f"{sale.starts_at:%Y-%m-%d %H:%M} {sale.ends_at:%Y}" == "2026-01-05 10:00 2099"
    assert (sale.product.slug, sale.product.list_price) == ("blue-kettle", 2_000)
    assert (sale.item.total, sale.item.available, sale.item.ledger) == (7, 7, 7)
    assert an_order(sale).amount == 950
    assert "There is a product with this slug already" in operator.post(NEW, FORM).text
    assert Sale.objects.count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"ends_at_0": "2020-01-05"},
        {"price": "9.555"},
        {"price": "1e999999"},
        {"price": "92233720368547758.07"},
        {"currency": "XXX"},
        {"name": "壶"},
        {"units": "0"},
        {"name": "\0"},
        {"starts_at_0": "99999-01-01"},
    ],
)
def test_new_sale_with_a_wrong_value_makes_nothing(admin_client, wrong):
    answer = admin_client.post(NEW, {**FORM, **wrong})
    assert answer.status_code == 200
    assert "errorlist" in answer.text
    assert [model.objects.count() for model in (Product, Item, Sale)] == [0, 0, 0]


def test_new_sale_sent_twice_at_once_is_made_once():
    operator = an_operator("add_product", "add_sale", "add_item")
    assert post_twice(operator, NEW, FORM) == [200, 302]
    assert [model.objects.count() for model in (Product, Item, Sale)] == [1, 1, 1]


def test_new_sale_needs_all_three_permissions():
    assert an_operator("add_product", "add_sale").post(NEW, FORM).status_code == 403
    assert not Product.objects.exists()
