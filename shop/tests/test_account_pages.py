"""Accounts on the pages: signing in and out, sessions, tokens and password resets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client

from inventory.models import OutboxMessage
from inventory.redis import client as redis
from shop.accounts import throttle
from shop.accounts.models import User
from shop.background import follow_up
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


def test_signing_in_or_up_leads_nowhere_else(client):
    buyer = a_buyer(PASSWORD)
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/sign-up/?next=//evil.example/", form).headers["Location"] == "/"
    login = {"username": buyer.username, "password": PASSWORD}
    away = Client().post("/sign-in/?next=https://evil.example/", login)
    assert away.headers["Location"] == "/"


def test_my_orders_are_mine_the_newest_first_twenty_a_page(browser, buyer):
    sale = a_sale(stock=30, limit=25)
    mine = [an_order(sale, buyer).pk for _ in range(21)]
    other = an_order(sale)
    first, second = (browser.get(f"/orders/?page={n}").text for n in (1, 2))
    shown = re.compile(r'<th scope="row"><a href="/orders/(\d+)/">')
    assert [int(pk) for pk in shown.findall(first)] == mine[:0:-1]
    assert [int(pk) for pk in shown.findall(second)] == mine[:1]
    assert f"/orders/{other.pk}/" not in first + second


ADDRESS = "eve@example.org"


@pytest.fixture
def eve() -> Iterator[User]:
    keys = throttle._key(ADDRESS, "reset"), throttle._key("eve")
    redis().delete(*keys)
    yield User.objects.create_user("eve", ADDRESS, PASSWORD)
    redis().delete(*keys)


def ask(address: str = ADDRESS) -> str:
    """Ask for a mail; return the page that answers."""
    answer = Client().post("/password-reset/", {"email": address}, follow=True)
    assert answer.redirect_chain == [("/password-reset/sent/", 302)]
    return answer.text


def test_the_answer_never_tells_whether_an_address_is_known_or_throttled(eve, mailoutbox):
    known = {re.sub(r'value="\w+"', "", ask()) for _ in range(throttle.RESETS + 2)}
    unknown = re.sub(r'value="\w+"', "", ask("nobody@example.org"))
    assert known == {unknown}
    assert OutboxMessage.objects.count() == throttle.RESETS
    assert {str(message.payload) for message in OutboxMessage.objects.all()} == {
        f"{{'user': {eve.pk}}}"
    }
    follow_up.follow_up()
    assert len(mailoutbox) == throttle.RESETS


@pytest.mark.parametrize("change", [{"is_active": False}, {"email": ""}])
def test_an_account_that_is_closed_or_without_address_meanwhile_gets_no_mail(
    eve, mailoutbox, change
):
    ask()
    User.objects.filter(pk=eve.pk).update(**change)
    follow_up.follow_up()
    assert mailoutbox == []
    assert OutboxMessage.objects.get().done is not None


def test_without_a_public_address_no_link_could_be_trusted(eve, settings):
    settings.PUBLIC_URL = ""
    assert Client().get("/password-reset/").status_code == 404
    assert Client().post("/password-reset/", {"email": ADDRESS}).status_code == 404
    assert not OutboxMessage.objects.exists()


def test_signing_in_changes_the_sessions_key_and_keeps_its_cart(eve):
    sale, browser = a_sale(), Client()
    browser.post(f"/cart/{sale.pk}/", {"quantity": 1})
    cart, before = dict(browser.session.items()), browser.session.session_key
    assert cart
    browser.post("/sign-in/", {"username": "eve", "password": PASSWORD})
    assert browser.session.session_key != before
    assert cart.items() <= dict(browser.session.items()).items()


def test_signing_out_ends_the_session_for_copies_of_its_cookie_too(eve):
    browser, copy = Client(), Client()
    browser.post("/sign-in/", {"username": "eve", "password": PASSWORD})
    copy.cookies["sessionid"] = browser.cookies["sessionid"].value
    assert browser.get("/sign-out/").status_code == 405, "a link must not do it"
    assert copy.get("/orders/").status_code == 200
    assert browser.post("/sign-out/").headers["Location"] == "/"
    assert copy.get("/orders/").status_code == 302
