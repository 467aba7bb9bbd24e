"""The cart page: add, change, and buy all or nothing."""

import pytest
from django.core.cache import cache

from shop.tests.catalogue import a_buyer, a_sale

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


def test_a_cart_can_be_filled_before_signing_in_but_not_bought(client):
    page = text(put(client, a_sale()))
    assert "Sign in to buy" in page
    answer = client.post("/cart/", {"key": "x"})
    assert answer.url.startswith("/sign-in/?next=/cart/")


def test_a_sale_that_is_not_there_cannot_be_put_into_the_cart(browser):
    assert browser.post("/cart/999999/", {"quantity": 1}).status_code == 404
