"""A page that waited while somebody signed in in another tab is shown again, and sells nothing."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from shop.accounts.models import User
from shop.orders.models import Order
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

AGAIN = "Your session has changed in another window. Please press the button again."


def hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert found
    return found[1]


def sign_in(tabs: Client, user: User) -> None:
    page = tabs.get("/sign-in/").text
    form = {"csrfmiddlewaretoken": hidden(page, "csrfmiddlewaretoken"), "username": user.username}
    assert tabs.post("/sign-in/", {**form, "password": PASSWORD}).status_code == 302


def sign_in_again(tabs: Client, user: User) -> None:
    token = hidden(tabs.get("/account/").text, "csrfmiddlewaretoken")
    tabs.post("/sign-out/", {"csrfmiddlewaretoken": token})
    sign_in(tabs, user)


@pytest.fixture
def user() -> User:
    return a_buyer(PASSWORD)


@pytest.fixture
def tabs(user: User) -> Client:
    tabs = Client(enforce_csrf_checks=True)
    sign_in(tabs, user)
    return tabs


def test_csrf_failure_shows_the_sale_with_key_and_quantity(tabs: Client, user: User) -> None:
    sale = a_sale(limit=5)
    page = tabs.get(f"/sales/{sale.pk}/").text
    form = {name: hidden(page, name) for name in ("csrfmiddlewaretoken", "key")}
    sign_in_again(tabs, user)
    shown = tabs.post(f"/sales/{sale.pk}/", {**form, "quantity": 3})
    assert shown.status_code == 409
    assert AGAIN in shown.text
    assert not Order.objects.exists()
    assert (hidden(shown.text, "key"), hidden(shown.text, "quantity")) == (form["key"], "3")
    form["csrfmiddlewaretoken"] = hidden(shown.text, "csrfmiddlewaretoken")
    assert tabs.post(f"/sales/{sale.pk}/", {**form, "quantity": 3}).status_code == 302
    assert Order.objects.get().buyer == user


def test_csrf_failure_leads_back_to_order_and_account(tabs: Client, user: User) -> None:
    order = an_order(a_sale(), user)
    token = hidden(tabs.get("/account/").text, "csrfmiddlewaretoken")
    sign_in_again(tabs, user)
    for path, page in ((f"/orders/{order.pk}/cancel/", f"/orders/{order.pk}/"), ("/cart/",) * 2):
        answer = tabs.post(path, {"csrfmiddlewaretoken": token}, follow=True)
        assert answer.redirect_chain == [(page, 302)]
        assert AGAIN in answer.text
    order.refresh_from_db()
    assert order.status == "awaiting_payment"


def test_second_sign_in_page_leads_on(user: User) -> None:
    tabs = Client(enforce_csrf_checks=True)
    old = hidden(tabs.get("/sign-in/?next=/cart/").text, "csrfmiddlewaretoken")
    sign_in(tabs, user)
    for wanted, leads in (("/cart/", "/cart/"), ("//evil.example/", "/")):
        answer = tabs.post("/sign-in/", {"csrfmiddlewaretoken": old, "next": wanted})
        assert (answer.status_code, answer.headers["Location"]) == (302, leads)


def test_form_of_another_site_is_refused(tabs: Client) -> None:
    sale = a_sale()
    headers = {"Origin": "https://evil.example"}
    assert tabs.post(f"/sales/{sale.pk}/", {"quantity": 1}, headers=headers).status_code == 403
    assert not Order.objects.exists()
