"""The pages without a browser: what they show, what their forms do, what they cost."""

import re
import threading
import time
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse

from inventory.models import Item, Reservation
from inventory.services import restock
from shop.accounts import tokens
from shop.catalogue.models import Product
from shop.orders.models import Order
from shop.refusals import PROBLEMS, Refusal
from shop.tests.catalogue import (
    PASSWORD,
    a_buyer,
    a_sale,
    a_sale_that_may_come_back,
    a_sold_out_sale,
    an_ended_sale,
    an_order,
    an_upcoming_sale,
)
from shop.tests.messages import title

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_kept():
    cache.clear()


@pytest.fixture
def buyer():
    return a_buyer()


@pytest.fixture
def browser(client, buyer):
    client.force_login(buyer)
    return client


def page(answer) -> str:
    return str(answer.content.decode())


def key_on(text: str) -> str:
    found = re.search(r'name="key" value="([^"]+)"', text)
    assert found is not None
    return found[1]


def buy_by_form(browser, sale, **different):
    form = {"key": str(uuid4()), "quantity": "1", **different}
    return browser.post(sale.get_absolute_url(), form)


# --- looking ---------------------------------------------------------------------------------


def test_the_home_page_shows_every_sale_in_its_place(client):
    sales = {
        "On sale now": a_sale(),
        "Coming soon": an_upcoming_sale(),
        "Sold out": a_sold_out_sale(),
        "All reserved, may come back": a_sale_that_may_come_back(),
        "Ended": an_ended_sale(),
        "Paused": a_sale(paused=True),
    }
    text = page(client.get("/"))
    for status, sale in sales.items():
        card = re.search(rf'<article[^>]*data-sale="{sale.pk}".*?</article>', text, re.DOTALL)
        assert card is not None
        assert status in card[0]
        assert "CN¥999.00" in card[0]
    order = [text.index(f'id="{shelf}"') for shelf in ("on_now", "coming_up", "over")]
    assert order == sorted(order)


def test_the_home_page_of_an_empty_shop_says_so(client):
    assert "There are no sales at the moment. Please check back soon." in page(client.get("/"))


def test_the_home_page_costs_two_queries_however_many_sales_there_are(
    client, django_assert_num_queries
):
    for _ in range(5):
        a_sale()
    with django_assert_num_queries(2):
        client.get("/")


def test_the_shelves_are_kept_for_a_second_in_each_language(client, monkeypatch):
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)
    first = a_sale()
    assert "On sale now" in page(client.get("/"))
    second = a_sale()
    text = page(client.get("/"))
    assert f'data-sale="{first.pk}"' in text
    assert f'data-sale="{second.pk}"' not in text
    chinese = page(client.get("/", headers={"Accept-Language": "zh"}))
    assert "抢购中" in chinese
    assert f'data-sale="{second.pk}"' in chinese
    now += 1.1
    assert f'data-sale="{second.pk}"' in page(client.get("/"))


def test_a_sale_page_costs_one_query_for_a_visitor(client, django_assert_num_queries):
    sale = a_sale()
    with django_assert_num_queries(1):
        client.get(sale.get_absolute_url())


def test_the_home_page_shows_what_can_be_bought_however_many_load_tests_ran(client):
    wanted = a_sale()
    for _ in range(30):
        a_sale(stock=0)
    text = page(client.get("/"))
    assert f'data-sale="{wanted.pk}"' in text
    assert text.count("data-sale=") == 1 + 6


def test_a_sale_page_shows_what_there_is_to_know(client):
    sale = a_sale(strategy="row_lock", limit=3)
    text = page(client.get(sale.get_absolute_url()))
    for shown in ("10 of 10 left", "row_lock", "15 minutes", "CN¥1,999.00", "50% off"):
        assert shown in text


def test_pages_carry_the_time_of_the_database(client):
    sale = a_sale()
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        before = cursor.fetchone()[0]
    for path in ("/", sale.get_absolute_url()):
        found = re.search(r'data-now="([^"]+)"', page(client.get(path)))
        assert found is not None
        now = type(before).fromisoformat(found[1])
        assert before <= now <= before + timedelta(seconds=30)


def test_a_sale_that_is_not_open_has_a_button_that_cannot_be_pressed(browser):
    for sale in (an_upcoming_sale(), an_ended_sale(), a_sold_out_sale(), a_sale(paused=True)):
        assert "data-buy disabled" in page(browser.get(sale.get_absolute_url()))
    assert "data-buy disabled" not in page(browser.get(a_sale().get_absolute_url()))


def test_without_javascript_the_page_reloads_itself_when_the_sale_opens(client):
    text = page(client.get(an_upcoming_sale(seconds=90).get_absolute_url()))
    found = re.search(r'<noscript><meta http-equiv="refresh" content="(\d+)">', text)
    assert found is not None
    assert 1 <= int(found[1]) <= 91


def test_nothing_is_loaded_from_outside(browser, buyer):
    order = an_order(a_sale(), buyer)
    for path in (
        "/",
        order.lines.get().sale.get_absolute_url(),
        order.get_absolute_url(),
        "/api/docs",
    ):
        text = page(browser.get(path))
        assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', text)
        assert "default-src &#x27;self&#x27;" in text or "default-src 'self'" in text


# --- buying ----------------------------------------------------------------------------------


def test_buying_leads_to_the_order(browser, buyer):
    sale = a_sale()
    answer = buy_by_form(browser, sale)
    order = Order.objects.get(buyer=buyer, lines__sale=sale)
    assert answer.status_code == 302
    assert answer.headers["Location"] == order.get_absolute_url()
    assert "Your order is reserved. Please pay before the deadline." in page(
        browser.get(order.get_absolute_url())
    )


def test_every_page_load_has_a_key_of_its_own(browser):
    address = a_sale().get_absolute_url()
    keys = {UUID(key_on(page(browser.get(address)))) for _ in range(3)}
    assert len(keys) == 3


def test_sending_the_form_again_is_the_same_purchase(browser, buyer):
    sale = a_sale(limit=5)
    key = key_on(page(browser.get(sale.get_absolute_url())))
    answers = [buy_by_form(browser, sale, key=key) for _ in range(3)]
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert Order.objects.filter(buyer=buyer).count() == 1


def test_the_form_sent_twice_at_once_is_the_same_purchase(buyer):
    sale, key, answers = a_sale(limit=5), str(uuid4()), []
    at_once = threading.Barrier(2)

    def click() -> None:
        browser = Client()
        browser.force_login(buyer)
        at_once.wait(timeout=30)
        answers.append(buy_by_form(browser, sale, key=key).headers["Location"])
        connection.close()

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    order = Order.objects.get(buyer=buyer)
    assert answers == [order.get_absolute_url()] * 2
    assert Item.objects.get(pk=sale.item_id).available == 9


def test_a_visitor_signs_in_first_and_comes_back_to_the_sale(client):
    sale, buyer = a_sale(), a_buyer(PASSWORD)
    answer = buy_by_form(client, sale)
    assert answer.headers["Location"] == f"/sign-in/?next={sale.get_absolute_url()}"
    form = {"username": buyer.username, "password": PASSWORD}
    signed_in = client.post(answer.headers["Location"], form)
    assert signed_in.headers["Location"] == sale.get_absolute_url()
    assert not Order.objects.exists()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (an_upcoming_sale, "not_started"),
        (an_ended_sale, "ended"),
        (a_sold_out_sale, "sold_out"),
        (lambda: a_sale(paused=True), "paused"),
    ],
)
def test_a_refusal_is_said_on_the_page_with_its_status(browser, make, code):
    answer = buy_by_form(browser, make())
    assert answer.status_code == PROBLEMS[code].status
    alert = re.search(r'role="alert">([^<]+)<', page(answer))
    assert alert is not None
    assert alert[1] == title(code)


def test_more_than_the_limit_is_refused_on_the_page(browser):
    sale = a_sale()
    assert buy_by_form(browser, sale).status_code == 302
    answer = buy_by_form(browser, sale)
    assert title("limit_reached") in page(answer)
    assert Order.objects.filter(lines__sale=sale).count() == 1


def test_after_a_refusal_the_page_keeps_the_purchases_key(browser, buyer):
    sale, key = a_sold_out_sale(), str(uuid4())
    answer = buy_by_form(browser, sale, key=key)
    assert key_on(page(answer)) == key
    restock(sale.item_id, 1)
    assert buy_by_form(browser, sale, key=key).status_code == 302
    assert Order.objects.filter(buyer=buyer).count() == 1


def test_an_unknown_outcome_is_asked_again_with_the_same_key(browser, monkeypatch):
    def lost(*purchase):
        raise Refusal("outcome_unknown")

    sale, key = a_sale(), str(uuid4())
    with monkeypatch.context() as patched:
        patched.setattr("shop.pages.sales.buy", lost)
        answer = buy_by_form(browser, sale, key=key)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"
    assert "We cannot tell yet whether your order was placed." in page(answer)
    assert key_on(page(answer)) == key


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"key": "nonsense"}, 400),
        ({"key": ""}, 400),
        ({"quantity": "0"}, 422),
        ({"quantity": "-1"}, 422),
        ({"quantity": "1000000000000"}, 422),
        ({"quantity": "one"}, 422),
    ],
)
def test_a_form_that_was_tampered_with_orders_nothing(browser, form, status):
    answer = buy_by_form(browser, a_sale(), **form)
    assert answer.status_code == status
    assert UUID(key_on(page(answer)))
    assert not Order.objects.exists()


def test_a_key_that_was_used_for_something_else_is_replaced(browser):
    sale, key = a_sale(limit=5), str(uuid4())
    buy_by_form(browser, sale, key=key)
    answer = buy_by_form(browser, sale, key=key, quantity="2")
    assert answer.status_code == 422
    assert key_on(page(answer)) != key


def test_a_forged_form_is_refused_kindly(buyer):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(buyer)
    answer = buy_by_form(strict, a_sale())
    assert answer.status_code == 403
    assert "The form has expired" in page(answer)
    assert not Order.objects.exists()


def test_a_sale_that_does_not_exist_is_not_found(browser):
    for path in ("/sales/0/", "/sales/999999999/", f"/sales/{10**30}/"):
        assert browser.get(path).status_code == 404
        answer = browser.post(path, {"key": str(uuid4()), "quantity": "1"})
        assert answer.status_code == 404


def test_a_sale_page_takes_no_other_methods(browser):
    assert browser.put(a_sale().get_absolute_url()).status_code == 405


# --- orders ----------------------------------------------------------------------------------


@pytest.fixture
def order(buyer):
    return an_order(a_sale(), buyer)


def change(browser, order, action):
    return browser.post(reverse(action, args=[order.pk]), follow=True)


def test_an_order_is_paid_and_returned(browser, order):
    assert "Payment received. Thank you for your purchase!" in page(change(browser, order, "pay"))
    assert "You returned this order, and your payment has been refunded." in page(
        change(browser, order, "refund")
    )
    assert Item.objects.get(pk=order.lines.get().sale.item_id).available == 10


def test_an_order_is_cancelled_and_its_unit_goes_back(browser, order):
    assert "You cancelled this order." in page(change(browser, order, "cancel"))
    assert Item.objects.get(pk=order.lines.get().sale.item_id).available == 10


def test_what_an_orders_state_does_not_allow_is_said(browser, order):
    change(browser, order, "pay")
    text = page(change(browser, order, "cancel"))
    assert title("order_paid") in text
    order.refresh_from_db()
    assert order.status == Order.Status.PAID


def test_only_what_can_be_done_is_offered(browser, order):
    def offered():
        text = page(browser.get(order.get_absolute_url()))
        return [a for a in ("pay", "cancel", "refund") if reverse(a, args=[order.pk]) in text]

    assert offered() == ["pay", "cancel"]
    change(browser, order, "pay")
    assert offered() == ["refund"]
    change(browser, order, "refund")
    assert offered() == []


def test_an_order_whose_time_has_passed_is_shown_expired_before_the_sweep(browser, order):
    past = order.pay_before - timedelta(days=1)
    Order.objects.filter(pk=order.pk).update(pay_before=past)
    Reservation.objects.filter(orderline__order=order).update(deadline=past)
    text = page(browser.get(order.get_absolute_url()))
    assert "This order was not paid in time, so the items went back on sale." in text
    assert reverse("pay", args=[order.pk]) not in text
    assert title("order_expired") in page(change(browser, order, "pay"))


def test_the_page_of_a_sale_lists_the_buyers_own_orders_only(browser, client, order):
    path = order.lines.get().sale.get_absolute_url()
    assert order.get_absolute_url() in page(browser.get(path))
    client.force_login(a_buyer())
    assert order.get_absolute_url() not in page(client.get(path))


def test_another_buyers_order_is_not_found(client, order):
    client.force_login(a_buyer())
    assert client.get(order.get_absolute_url()).status_code == 404
    for action in ("pay", "cancel", "refund"):
        assert change(client, order, action).status_code == 404
    order.refresh_from_db()
    assert order.status == Order.Status.AWAITING_PAYMENT


def test_orders_are_for_those_who_signed_in(client, order):
    for path in ("/orders/", order.get_absolute_url(), "/account/"):
        assert client.get(path).headers["Location"] == f"/sign-in/?next={path}"


def test_orders_are_changed_by_post_only(browser, order):
    for action in ("pay", "cancel", "refund"):
        assert browser.get(reverse(action, args=[order.pk])).status_code == 405


def test_my_orders_are_mine_the_newest_first_twenty_a_page(browser, buyer):
    sale = a_sale(stock=30, limit=25)
    mine = [an_order(sale, buyer).pk for _ in range(21)]
    other = an_order(sale)
    first, second = (page(browser.get(f"/orders/?page={n}")) for n in (1, 2))
    shown = re.compile(r'<th scope="row"><a href="/orders/(\d+)/">')
    assert [int(pk) for pk in shown.findall(first)] == mine[:0:-1]
    assert [int(pk) for pk in shown.findall(second)] == mine[:1]
    assert f"/orders/{other.pk}/" not in first + second


def test_nobody_without_orders_sees_a_table(browser):
    assert "You have no orders yet." in page(browser.get("/orders/"))


# --- accounts --------------------------------------------------------------------------------


def test_who_signs_up_is_signed_in_and_goes_on(client):
    sale = a_sale()
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD, "email": ""}
    answer = client.post(f"/sign-up/?next={sale.get_absolute_url()}", form)
    assert answer.headers["Location"] == sale.get_absolute_url()
    assert buy_by_form(client, sale).status_code == 302
    assert Order.objects.get().buyer == User.objects.get(username="new")


def test_signing_in_or_up_leads_nowhere_else(client):
    buyer = a_buyer(PASSWORD)
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/sign-up/?next=//evil.example/", form).headers["Location"] == "/"
    login = {"username": buyer.username, "password": PASSWORD}
    away = Client().post("/sign-in/?next=https://evil.example/", login)
    assert away.headers["Location"] == "/"


def test_a_wrong_password_is_said(client, buyer):
    answer = client.post("/sign-in/", {"username": buyer.username, "password": "wrong"})
    assert "errorlist" in page(answer)


def test_signing_out_is_a_form(browser):
    assert browser.get("/sign-out/").status_code == 405
    assert browser.post("/sign-out/").headers["Location"] == "/"
    assert browser.get("/orders/").status_code == 302


def test_the_account_page_makes_a_token_when_asked_to(browser, buyer):
    assert 'id="token"' not in page(browser.get("/account/"))
    found = re.search(r'id="token"[^>]* value="([^"]+)"', page(browser.post("/account/")))
    assert found is not None
    assert tokens.verify(found[1]) == buyer.pk


# --- languages -------------------------------------------------------------------------------


def test_the_language_follows_the_browser_and_the_switch(client):
    address = a_sale().get_absolute_url()
    chinese = client.get(address, headers={"Accept-Language": "zh-CN,zh;q=0.9"})
    assert '<html lang="zh-hans">' in page(chinese)
    assert "每人限购" in page(chinese)
    assert '<html lang="en">' in page(client.get(address))
    answer = client.post("/language/", {"language": "zh-hans", "next": address})
    assert answer.headers["Location"] == address
    assert '<html lang="zh-hans">' in page(client.get(address))


def test_a_product_is_named_in_the_pages_language_if_it_has_such_a_name(client):
    address = a_sale().get_absolute_url()
    chinese = {"Accept-Language": "zh"}
    assert "<h1>Phone</h1>" in page(client.get(address, headers=chinese))
    Product.objects.update(name_zh="手机", description_zh="只有十台")
    shown = page(client.get(address, headers=chinese))
    assert "<h1>手机</h1>" in shown
    assert "只有十台" in shown
    assert "<h1>Phone</h1>" in page(client.get(address))


def test_refusals_are_in_the_pages_language(browser):
    browser.cookies["django_language"] = "zh-hans"
    assert title("sold_out", "zh-hans") in page(buy_by_form(browser, a_sold_out_sale()))


# --- when it goes wrong ----------------------------------------------------------------------


def test_a_page_that_is_not_there_is_a_friendly_404(client):
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert "This page does not exist" in page(answer)


@pytest.mark.parametrize(
    ("error", "status", "heading"),
    [
        (OperationalError("away"), 503, "The shop is overloaded"),
        (RuntimeError("bug"), 500, "Something went wrong on our side"),
    ],
)
def test_a_failure_is_a_friendly_page_that_needs_no_database(
    error, status, heading, buyer, monkeypatch
):
    def fail():
        raise error

    monkeypatch.setattr("shop.pages.offers.shelves", fail)
    client = Client(raise_request_exception=False)
    client.force_login(buyer)
    answer = client.get("/")
    assert answer.status_code == status
    assert heading in page(answer)
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_the_icon_is_found_at_the_usual_address(client):
    assert client.get("/favicon.ico").headers["Location"] == "/static/shop/favicon.svg"
