"""The cart page: add, change, and buy all or nothing."""

import re
from uuid import uuid4

import pytest
from django.core.cache import cache

from inventory.models import Item
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, a_sold_out_sale
from shop.tests.messages import title

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def browser(client):
    cache.clear()
    client.force_login(a_buyer())
    return client


def put(browser, sale, quantity: object = 1):
    return browser.post(f"/cart/{sale.pk}/", {"quantity": quantity}, follow=True)


def text(answer) -> str:
    return str(answer.content.decode())


def lines(page: str) -> list[int]:
    return [int(pk) for pk in re.findall(r'data-line="(\d+)"', page)]


def buy(browser, page: str):
    return browser.post("/cart/", {"key": key_on(page)})


def key_on(page: str) -> str:
    found = re.search(r'name="key" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_what_is_put_into_the_cart_is_bought_together_and_the_cart_is_empty_again(browser):
    one, two = a_sale(limit=5), a_sale(limit=5)
    put(browser, one, 2)
    page = text(put(browser, two))
    assert lines(page) == [one.pk, two.pk]
    assert "CN¥2,997.00" in page
    answer = buy(browser, page)
    order = Order.objects.get()
    assert (answer.status_code, answer.url) == (302, f"/orders/{order.pk}/")
    assert (order.quantity, len(order.lines.all())) == (3, 2)
    assert "Your cart is empty." in text(browser.get("/cart/"))


def test_the_page_that_is_sent_twice_buys_once(browser):
    page = text(put(browser, a_sale()))
    first, second = buy(browser, page), buy(browser, page)
    assert Order.objects.count() == 1
    assert (first.status_code, first.url) == (302, f"/orders/{Order.objects.get().pk}/")
    assert (second.status_code, second.url) == (302, first.url)


def test_an_empty_cart_buys_nothing(browser):
    assert browser.post("/cart/", {"key": str(uuid4())}).url == "/cart/"


def test_a_line_is_changed_and_taken_out(browser):
    one, two = a_sale(limit=5), a_sale()
    put(browser, one)
    put(browser, two)
    assert 'value="4"' in text(put(browser, one, 4))
    assert lines(text(put(browser, two, 0))) == [one.pk]


def test_a_line_that_is_sold_out_is_named_and_nothing_is_bought(browser):
    there, gone = a_sale(), a_sold_out_sale()
    put(browser, there)
    answer = buy(browser, text(put(browser, gone)))
    page = text(answer)
    assert answer.status_code == 409
    assert title("sold_out") in page
    assert re.search(rf'data-line="{gone.pk}" class="refused"', page)
    assert Item.objects.get(pk=there.item_id).available == 10
    assert lines(page) == [there.pk, gone.pk]


def test_a_refused_cart_can_be_sent_again_under_the_same_key(browser):
    there, gone = a_sale(), a_sold_out_sale()
    put(browser, there)
    before = text(put(browser, gone))
    page = text(buy(browser, before))
    assert key_on(page) == key_on(before)
    put(browser, gone, 0)
    assert buy(browser, page).status_code == 302


@pytest.mark.parametrize("quantity", ["-1", "many", "1001", ""])
def test_nonsense_is_not_put_into_the_cart(browser, quantity):
    answer = put(browser, a_sale(), quantity)
    assert title("invalid_quantity") in text(answer)
    assert lines(text(answer)) == []


def test_a_cart_can_be_filled_before_signing_in_but_not_bought(client):
    page = text(put(client, a_sale()))
    assert "Sign in to buy" in page
    answer = client.post("/cart/", {"key": "x"})
    assert answer.url.startswith("/sign-in/?next=/cart/")


def test_a_sale_that_is_not_there_cannot_be_put_into_the_cart(browser):
    assert browser.post("/cart/999999/", {"quantity": 1}).status_code == 404
