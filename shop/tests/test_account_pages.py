"""Accounts on the pages: signing in and out, sessions, tokens and password resets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from smtplib import SMTPResponseException
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client, override_settings
from django.urls import reverse

from inventory.models import OutboxMessage
from inventory.redis import client as redis
from shop.accounts import throttle, tokens
from shop.accounts.models import User
from shop.background import follow_up
from shop.orders.models import Order
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale, an_order
from shop.tests.specification.page import forms, read

pytestmark = pytest.mark.django_db(transaction=True)


def test_who_signs_up_to_buy_is_signed_in_and_back_at_the_sale(client):
    sale = a_sale()
    where = sale.get_absolute_url()
    for link in ("/sign-in/", "/sign-up/"):
        links = [a.attributes["href"] for a in read(client.get(where).text).one("main").all("a")]
        [where] = [href for href in links if href.startswith(link)]
    [shown] = forms(read(client.get(where).text), where)
    typed = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    answer = client.post(shown.action, {**shown.values, **typed})
    assert answer.headers["Location"] == sale.get_absolute_url()
    form = {"key": str(uuid4()), "quantity": "1"}
    assert client.post(sale.get_absolute_url(), form).status_code == 302
    assert Order.objects.get().buyer == User.objects.get(username="new")


def test_signing_in_or_up_leads_nowhere_else(client):
    buyer = a_buyer(PASSWORD)
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/sign-up/?next=//evil.example/", form).headers["Location"] == "/"
    login = {"username": buyer.username, "password": PASSWORD}
    away = Client().post("/sign-in/?next=https://evil.example/", login)
    assert away.headers["Location"] == "/"


def test_orders_are_changed_by_post_only(browser, buyer):
    order = an_order(a_sale(), buyer)
    for action in ("pay", "cancel", "refund"):
        assert browser.get(reverse(action, args=[order.pk])).status_code == 405


def test_my_orders_are_mine_the_newest_first_twenty_a_page(browser, buyer):
    sale = a_sale(stock=30, limit=25)
    mine = [an_order(sale, buyer).pk for _ in range(21)]
    other = an_order(sale)
    first, second = (browser.get(f"/orders/?page={n}").text for n in (1, 2))
    shown = re.compile(r'<th scope="row"><a href="/orders/(\d+)/">')
    assert [int(pk) for pk in shown.findall(first)] == mine[:0:-1]
    assert [int(pk) for pk in shown.findall(second)] == mine[:1]
    assert f"/orders/{other.pk}/" not in first + second


def test_the_account_page_makes_a_token_when_asked_to(browser, buyer):
    assert 'id="token"' not in browser.get("/account/").text
    found = re.search(r'id="token"[^>]* value="([^"]+)"', browser.post("/account/").text)
    assert found is not None
    assert tokens.verify(found[1]) == buyer.pk


ADDRESS = "eve@example.org"
NEW = "a new long passphrase"


class Refusing(EmailBackend):
    """A mail server that takes no mail."""

    def send_messages(self, messages: Any) -> int:
        raise SMTPResponseException(451, b"not now")


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


def link_of(mail: Any) -> str:
    [link] = re.findall(r"http\S+", mail.body)
    return urlsplit(link).path  # type: ignore[no-any-return]


def choose(link: str, password: str = NEW) -> Any:
    """Follow a mail's link and choose a password."""
    browser = Client()
    form = browser.get(link)
    fields = {"new_password1": password, "new_password2": password}
    return browser.post(form.headers.get("Location", link), fields, follow=True)


def test_the_mails_link_sets_a_password_once_and_ends_all_sessions(eve, mailoutbox, settings):
    elsewhere = Client()
    assert elsewhere.login(username="eve", password=PASSWORD)
    for _ in range(throttle.ATTEMPTS + 1):
        Client().post("/sign-in/", {"username": "eve", "password": "a guess"})
    ask(ADDRESS.upper())
    assert mailoutbox == []  # the page waits for no mail server
    follow_up.follow_up()
    [mail] = mailoutbox
    assert mail.to == [ADDRESS]
    assert mail.subject == "Choose a new password / 设置新密码"
    assert settings.PUBLIC_URL + link_of(mail) in mail.body
    assert "Your new password works now." in choose(link_of(mail)).text
    assert elsewhere.get("/orders/").status_code == 302
    assert Client().login(username="eve", password=NEW)
    assert "This link has been used" in Client().get(link_of(mail)).text
    choose(link_of(mail), "another long passphrase")
    assert not Client().login(username="eve", password="another long passphrase")


def test_a_weak_password_and_a_forged_link_change_nothing(eve, mailoutbox):
    ask()
    follow_up.follow_up()
    link = link_of(mailoutbox[0])
    assert "errorlist" in choose(link, "123").text
    forged = re.sub(r"-\w+/$", "-" + "0" * 32 + "/", link)
    assert "This link has been used" in Client().get(forged).text
    eve.refresh_from_db()
    assert eve.check_password(PASSWORD)


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


def test_a_mail_that_the_server_does_not_take_is_tried_again(eve, mailoutbox):
    ask()
    with override_settings(EMAIL_BACKEND=f"{__name__}.Refusing"):
        follow_up.follow_up()
    message = OutboxMessage.objects.get()
    assert (message.done, message.attempts, mailoutbox) == (None, 1, [])
    assert message.error.startswith("SMTPResponseException")
    OutboxMessage.objects.update(not_before=message.created)
    follow_up.follow_up()
    assert len(mailoutbox) == 1


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
