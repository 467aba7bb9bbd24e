"""Mails go to confirmed addresses only, a few at a time, and have valid and unique Message-IDs."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import make_msgid
from typing import Any

import pytest
from django.core import mail
from django.core.mail.message import sanitize_address
from django.db import transaction
from django.test import Client

from inventory import outbox
from inventory.models import OutboxMessage
from inventory.tests.helpers import on_this_thread
from shop import identity, orders
from shop.accounts import addresses
from shop.accounts.models import AddressMails, PendingAddress, User
from shop.background import follow_up
from shop.mails import rendering, sending
from shop.mails.rendering import Kind
from shop.orders.models import Order
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

STRANGER = "stranger@example.com"
LINK = re.compile(r"http://127\.0\.0\.1:8000(/confirm-address/\S+)")
NAMES = re.compile(r'name="key" value="([0-9a-f-]+)"')


def sign_up(name: str, address: str = STRANGER, client: Client | None = None) -> Client:
    browser = client or Client()
    form = {"username": name, "email": address, "password1": PASSWORD, "password2": PASSWORD}
    browser.post("/sign-up/", form)
    return browser


def sent_to(address: str) -> list[str]:
    """Let the workers send what is due; return the subjects of all mails to an address."""
    follow_up.follow_up()
    return [str(message.subject) for message in mail.outbox if address in message.to]


def link_of(number: int = -1) -> str:
    found = LINK.search(str(mail.outbox[number].body))
    assert found
    return found[1]


def buy_and_cancel(browser: Client, sale: int) -> None:
    key = NAMES.search(browser.get(f"/sales/{sale}/").text)
    assert key
    placed = browser.post(f"/sales/{sale}/", {"key": key[1], "quantity": 1})
    browser.post(f"{placed.headers['Location']}cancel/")


def later(seconds: float = 3601) -> None:
    """Move the mails that were counted, and those that wait, into the past."""
    for row in AddressMails.objects.all():
        AddressMails.objects.filter(pk=row.pk).update(since=row.since - timedelta(seconds=seconds))
    OutboxMessage.objects.filter(done=None).update(not_before="2020-01-01T00:00Z")


def test_unconfirmed_address_gets_only_the_link() -> None:
    browser, sale = sign_up("mallory"), a_sale(limit=1)
    for _ in range(8):
        buy_and_cancel(browser, sale.pk)
    assert len(sent_to(STRANGER)) == 1
    assert Order.objects.count() == 8
    page = browser.get(f"/orders/{Order.objects.latest('pk').pk}/").text
    assert "Reserved for you" in page
    assert "no confirmed email address" in page


def test_confirmed_address_gets_mails() -> None:
    browser, sale = sign_up("ann", "ann@example.com"), a_sale()
    assert sent_to("ann@example.com")
    page = browser.get(link_of())
    assert "Your address is confirmed" in page.text
    buy_and_cancel(browser, sale.pk)
    assert len(sent_to("ann@example.com")) == 2
    order = Order.objects.get()
    assert "What we would have written" not in browser.get(f"/orders/{order.pk}/").text


def test_link_opened_by_a_scanner_confirms_nothing() -> None:
    sign_up("mallory")
    sent_to(STRANGER)
    scanner = Client()
    assert b"Press the button" in scanner.get(link_of()).content
    assert User.objects.get(username="mallory").email == ""
    scanner.post(link_of())
    assert User.objects.get(username="mallory").email == STRANGER
    assert not PendingAddress.objects.exists()


def test_link_of_a_replaced_address_confirms_nothing() -> None:
    browser = sign_up("ann", "old@example.com")
    sent_to("old@example.com")
    old = link_of()
    form = {"email": "new@example.com", "password": PASSWORD}
    assert browser.post("/account/address/", form).status_code == 302
    assert "too old" in browser.get(old).text
    sent_to("new@example.com")
    browser.get(link_of())
    assert User.objects.get().email == "new@example.com"
    assert "too old" in browser.get("/confirm-address/nonsense/").text


def test_address_change_needs_the_password() -> None:
    user = a_buyer(PASSWORD)
    browser = Client()
    browser.force_login(user)
    wrong = browser.post("/account/address/", {"email": STRANGER, "password": "guess"})
    assert "This is not your password." in wrong.text
    assert not OutboxMessage.objects.exists()
    browser.post("/account/address/", {"email": "", "password": PASSWORD})
    user.refresh_from_db()
    assert user.email == ""


def test_sign_ups_send_an_address_few_mails() -> None:
    spellings = (STRANGER, "Stranger@Example.com", "stranger+1@example.com", "STRANGER@example.com")
    for number in range(12):
        sign_up(f"bot{number}", spellings[number % 4])
    follow_up.follow_up()
    assert len(mail.outbox) == addresses.MAX_REQUESTED
    later()
    sign_up("one-more")
    follow_up.follow_up()
    assert len(mail.outbox) == addresses.MAX_REQUESTED + 1


def test_resets_of_six_accounts_are_one_mail_each() -> None:
    users = [User.objects.create_user(f"a{number}", STRANGER, PASSWORD) for number in range(6)]
    for _ in range(10):
        answer = Client().post("/password-reset/", {"email": STRANGER.upper()}, follow=True)
        assert answer.redirect_chain == [("/password-reset/sent/", 302)]
    assert len(sent_to(STRANGER)) == addresses.MAX_REQUESTED
    body = str(mail.outbox[0].body)
    assert body.count("/password-reset/") == len(users)
    later()
    OutboxMessage.objects.all().delete()
    with transaction.atomic():  # as earlier versions wrote it
        outbox.emit(sending.RESET, {"user": users[0].pk}, queue=sending.QUEUE)
    assert len(sent_to(STRANGER)) == addresses.MAX_REQUESTED + 1


def test_pending_address_gets_no_reset() -> None:
    sign_up("mallory")
    mails = len(sent_to(STRANGER))
    Client().post("/password-reset/", {"email": STRANGER})
    assert len(sent_to(STRANGER)) == mails


def test_mails_of_one_kind_within_minutes_are_one() -> None:
    buyer = a_buyer()
    _first, *rest = (an_order(a_sale(), buyer) for _ in range(6))
    assert len(sent_to(buyer.email)) == 1, "those that are due together"
    assert all(f"{order.pk}:" in mail.outbox[0].body for order in rest)
    again = [an_order(a_sale(), buyer) for _ in range(5)]
    assert len(sent_to(buyer.email)) == 1
    waiting = OutboxMessage.objects.filter(queue="mail", done=None)
    assert [message.attempts for message in waiting] == [0] * 5
    later(301)
    assert len(sent_to(buyer.email)) == 2
    assert all(str(order.pk) in mail.outbox[1].body for order in again)
    assert outbox.pending() == 0
    assert len({str(message.message()["Message-ID"]) for message in mail.outbox}) == 2


def test_mail_of_another_kind_does_not_wait() -> None:
    buyer = a_buyer()
    an_order(a_sale(hold=timedelta(milliseconds=1)), buyer)
    follow_up.deliver()
    orders.expire()
    assert len(sent_to(buyer.email)) == 2


def test_address_gets_one_mail_from_two_workers() -> None:
    buyer = a_buyer()
    for _ in range(4):
        an_order(a_sale(), buyer)
    follow_up.deliver()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: on_this_thread(sending.send_mails), range(4)))
    assert len(mail.outbox) == 1


def test_mail_without_an_interval_is_sent_for_each_order(settings: Any) -> None:
    settings.SHOP_MAIL_INTERVAL = 0
    buyer = a_buyer()
    for _ in range(3):
        an_order(a_sale(), buyer)
    assert len(sent_to(buyer.email)) == 3


@pytest.mark.parametrize("name", ["root", "bob@example.com", "张伟"])
def test_buyer_without_address_gets_no_mail(name: str) -> None:
    order = an_order(a_sale(), User.objects.create(username=name, password="!"))
    follow_up.follow_up()
    assert (mail.outbox, outbox.pending()) == ([], 0)
    loaded = Order.objects.with_lines().select_related("buyer").get(pk=order.pk)
    assert rendering.message(Kind.CONFIRMATION, loaded).to == []


UNMAILABLE = (
    "d\u0131\u0131@example.com",
    "张伟@example.com",
    "\u017ft@example.com",
    "a@b..example",
)


@pytest.mark.parametrize("address", UNMAILABLE, ids=ascii)
def test_address_that_no_server_takes_is_refused(address: str) -> None:
    sign_up("zoe", address)
    assert not User.objects.exists()
    # An operator or an import may have written it.
    an_order(a_sale(), User.objects.create(username="bo", email=address, password="!"))
    follow_up.follow_up()
    assert (mail.outbox, outbox.pending()) == ([], 0)


def test_address_with_a_domain_beyond_ascii_gets_mail() -> None:
    sign_up("zoe", "zoe@b\u00fccher.example")
    follow_up.follow_up()
    [written] = mail.outbox
    assert sanitize_address(written.to[0], "utf-8") == "zoe@xn--bcher-kva.example"


@pytest.mark.parametrize("sender", ["shop@localhost", "Shop <a@例え.jp>", "shop", "a@" + "x" * 80])
@pytest.mark.parametrize("shop", ["闪购", "Evening sale", "☕ & <co>\n"])
def test_message_id_is_valid_and_of_this_database(shop: str, sender: str, settings: Any) -> None:
    settings.SHOP_NAME, settings.DEFAULT_FROM_EMAIL = shop, sender
    pk = an_order(a_sale()).pk
    order = Order.objects.with_lines().select_related("buyer").get(pk=pk)
    before = rendering.message(Kind.PAID, order).extra_headers["Message-ID"]
    assert re.fullmatch(r"<[a-z_.0-9]+@[a-z0-9-]+(\.[a-z0-9-]+)+>", before)
    assert before == rendering.message(Kind.PAID, order).extra_headers["Message-ID"]
    assert before != make_msgid()
    identity.renew()
    assert rendering.message(Kind.PAID, order).extra_headers["Message-ID"] != before


def test_address_is_not_asked_for_without_a_public_url(settings: Any) -> None:
    settings.PUBLIC_URL = ""
    assert 'name="email"' not in Client().get("/sign-up/").text
    sign_up("ann")
    assert User.objects.get().email == ""
    assert not PendingAddress.objects.exists()
