"""The demo's catalogue: there, complete, and the same however often it is filled in."""

import json
import re
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from inventory.audit import audit
from lab.demo.data import CATALOGUE
from shop.catalogue.models import Product, Sale
from shop.orders.models import Order
from shop.pages import sales
from shop.tests.test_messages import INNER

pytestmark = pytest.mark.django_db(transaction=True)


def seed():
    out = StringIO()
    call_command("seed", "--json", stdout=out)
    return json.loads(out.getvalue())


def offer(slug):
    [found] = sales.of([Sale.objects.filter(product__slug=slug).latest("starts_at").pk])
    return found


def test_the_catalogue_has_a_sale_in_every_state():
    seed()
    statuses = {product.slug: offer(product.slug).status for product in Product.objects.all()}
    assert statuses == {
        "classic-phone": "open",
        "headphones": "open",
        "lamp": "open",
        "watch": "not_started",
        "espresso": "sold_out",
        "travel-mug": "ended",
    }


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.slug)
def test_a_product_says_nothing_of_how_or_whether_it_is_sold(entry):
    # The description stays the same while the sale opens, sells out and ends.
    moments = re.compile(r"opens?\b|minutes|moments|yesterday|ended|sold out|开抢|售罄|昨日|结束")
    for text in (entry.name, entry.name_zh, entry.description, entry.description_zh):
        assert not INNER.search(text)
        assert not moments.search(text)


def test_the_classic_is_ten_phones_at_999_instead_of_1999():
    seed()
    phone = offer("classic-phone")
    assert (phone.sale.product.list_price, phone.sale.price) == (199_900, 99_900)
    assert (phone.sale.item.available, phone.sale.item.total, phone.sale.limit) == (10, 10, 1)


def test_filling_in_twice_changes_nothing_and_the_books_balance():
    first = seed()
    sold = Order.objects.count()
    assert seed() == first
    assert (Sale.objects.count(), Order.objects.count()) == (len(first["sales"]), sold)
    assert audit().balanced


def test_a_sale_that_has_opened_is_followed_by_one_that_opens_in_a_few_minutes():
    seed()
    opened = offer("watch").sale
    Sale.objects.filter(pk=opened.pk).update(starts_at=opened.starts_at - timedelta(hours=1))
    seed()
    again = offer("watch")
    assert again.sale.pk != opened.pk
    assert again.status == "not_started"
    assert again.sale.item.available == 50
    assert Sale.objects.filter(product__slug="watch").count() == 2


def test_a_sale_that_is_over_is_opened_anew():
    seed()
    Sale.objects.filter(product__slug="classic-phone").update(
        starts_at="2020-01-01T00:00Z", ends_at="2020-01-02T00:00Z"
    )
    seed()
    assert offer("classic-phone").status == "open"
