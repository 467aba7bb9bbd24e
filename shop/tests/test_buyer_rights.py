"""A buyer's rights: to be asked first, to get the data, to have it erased; and the shop's time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.urls import reverse
from django_otp.plugins.otp_totp.models import TOTPDevice

from shop import environment, payments
from shop.accounts.addresses import propose
from shop.accounts.models import PendingAddress, TokenGeneration, User
from shop.admin.front import money_today
from shop.audit import examine
from shop.mails import rendering
from shop.mails.rendering import Kind
from shop.orders.models import Order, Status
from shop.payments.models import Payment
from shop.staff import buyers
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.money import status
from shop.tests.test_pages import key_on
from shop.tests.test_staff import an_operator, handed_over

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("act", "pays"), [("cancel", False), ("refund", True)])
def test_order_page_asks_before_it_gives_back(browser, buyer, fake_provider, act, pays):
    order = an_order(a_sale(), buyer)
    if pays:
        payments.pay(order)
    where = reverse(act, args=[order.pk])
    before = status(order)
    assert f'action="{where}"' in browser.get(order.get_absolute_url()).text
    page = browser.get(where).text
    assert "This cannot be undone" in page
    assert ("999" in page) == pays, "what comes back"
    assert status(order) == before
    browser.post(where)
    assert status(order) != before
    assert browser.get(where).status_code == 302


def test_part_is_confirmed_with_its_own_key(browser, buyer, fake_provider):
    order = payments.pay(an_order(a_sale(limit=3), buyer, 3))
    where = reverse("refund", args=[order.pk])
    key = key_on(browser.get(order.get_absolute_url()).text)
    part = {"key": key, "sale": str(order.lines.get().sale_id), "quantity": "2"}
    page = browser.get(where, part).text
    assert "2 × Phone" in page
    assert key_on(page) == key
    for wrong in ({**part, "quantity": "4"}, {**part, "quantity": "x"}, {**part, "key": "x"}):
        assert browser.get(where, wrong).status_code == 302
    assert Order.objects.get(pk=order.pk).refunded == 0


def test_deadline_is_shown_while_something_is_to_be_paid(browser, buyer, fake_provider):
    order = an_order(a_sale(), buyer)
    assert "Pay before" in browser.get(order.get_absolute_url()).text
    payments.pay(order)
    assert "Pay before" not in browser.get(order.get_absolute_url()).text


def test_erased_buyer_is_gone_and_the_books_stay(fake_provider):
    order = handed_over(a_sale())
    buyer = order.buyer
    propose(buyer, "new@example.com")
    name, address = buyer.username, buyer.email
    for _ in range(2):
        buyers.erase(buyer.pk)
    erased = User.objects.get(pk=buyer.pk)
    assert (erased.username, erased.email, erased.is_active) == (f"erased-{buyer.pk}", "", False)
    assert not erased.has_usable_password()
    assert not PendingAddress.objects.exists()
    assert not User.objects.filter(username=name).exists()
    assert not User.objects.filter(email=address).exists()
    assert TokenGeneration.objects.get(buyer=buyer.pk).number > 0, "tokens are revoked"
    order.refresh_from_db()
    assert (order.status, order.amount) == (Status.FULFILLED, 99_900)
    assert examine().balanced


def test_buyer_with_an_open_order_is_not_erased(fake_provider):
    order = payments.pay(an_order(a_sale()))
    with pytest.raises(buyers.NotErasable) as refused:
        buyers.erase(order.buyer_id)
    assert refused.value.orders == [order.pk]
    out = StringIO()
    with pytest.raises(CommandError, match=f"orders are open: {order.pk}"):
        call_command("buyer_data", order.buyer.username, erase=True, stdout=out)
    assert User.objects.get(pk=order.buyer_id).email


def test_staff_is_not_erased(admin_user):
    with pytest.raises(buyers.NotErasable):
        buyers.erase(admin_user.pk)


def test_handed_out_data_has_account_orders_and_other_tables(fake_provider):
    order = payments.pay(an_order(a_sale()))
    propose(order.buyer, "new@example.com")
    out = StringIO()
    call_command("buyer_data", order.buyer.username.upper(), stdout=out)
    data = json.loads(out.getvalue())
    assert data["account"]["email"] == order.buyer.email
    [exported] = data["orders"]
    assert (exported["id"], exported["status"]) == (order.pk, "paid")
    assert exported["lines"][0]["product"] == "Phone"
    assert data["others"]["accounts.PendingAddress"][0]["address"] == "new@example.com"
    with pytest.raises(CommandError, match="no account"):
        call_command("buyer_data", "nobody", stdout=out)


def test_handed_out_data_has_no_key_of_a_second_factor(admin_user):
    key = TOTPDevice.objects.create(user=admin_user, name="telephone").key
    assert key not in json.dumps(buyers.collect(admin_user.pk), default=str)


def test_admin_erases_and_hands_out_with_the_permission_only(fake_provider):
    buyer = a_buyer()
    pages = {
        page: reverse(f"admin:accounts_user_{page}", args=[buyer.pk]) for page in ("data", "erase")
    }
    stranger = an_operator("change_user", "view_user", "delete_user")
    assert stranger.get(pages["data"]).status_code == 403
    assert stranger.post(pages["erase"]).status_code == 403
    operator = an_operator("hand_out_user", "erase_user")
    assert operator.get(pages["data"]).json()["account"]["username"] == buyer.username
    assert "cannot be undone" in operator.get(pages["erase"]).text
    assert User.objects.get(pk=buyer.pk).email
    assert operator.post(pages["erase"]).status_code == 302
    assert not User.objects.get(pk=buyer.pk).email
    busy = an_order(a_sale())
    where = reverse("admin:accounts_user_erase", args=[busy.buyer_id])
    assert operator.post(where).status_code == 409


def test_mails_and_todays_money_are_in_the_shops_time_zone(settings, fake_provider, monkeypatch):
    settings.TIME_ZONE = "Asia/Shanghai"
    order = payments.pay(an_order(a_sale()))
    order.pay_before = datetime(2026, 1, 5, 23, 30, tzinfo=UTC)
    assert "2026-01-06 07:30 CST" in rendering.message(Kind.CONFIRMATION, order).body
    now = datetime(2026, 1, 5, 17, 0, tzinfo=UTC)  # one o'clock of the next day
    monkeypatch.setattr("shop.admin.front.database_time", lambda: now)
    Payment.objects.update(settled=datetime(2026, 1, 5, 15, 59, tzinfo=UTC))
    assert money_today() == []
    Payment.objects.update(settled=datetime(2026, 1, 5, 16, 1, tzinfo=UTC))
    assert len(money_today()) == 1


def test_unknown_time_zone_is_refused(monkeypatch):
    for zone in ("Mars/Olympus", "../etc/passwd", ""):
        monkeypatch.setenv("SHOP_TIME_ZONE", zone or " ")
        with pytest.raises(ImproperlyConfigured, match="SHOP_TIME_ZONE"):
            environment.time_zone("SHOP_TIME_ZONE")
