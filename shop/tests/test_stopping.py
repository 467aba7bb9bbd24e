"""A sale that staff stop: all of its orders go back, once, through crashes and late payments."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from inventory.models import OutboxMessage
from inventory.tests.helpers import book
from shop import orders, payments
from shop.audit import examine
from shop.audit.report import Alert
from shop.catalogue.models import Sale
from shop.checkout import Wanted, buy, check_out
from shop.orders.models import Order, OrderEvent, Status
from shop.orders.parts import give_back
from shop.orders.transitions import Act
from shop.payments import recovery
from shop.payments.models import Payment
from shop.refusals import Refusal
from shop.staff import stopping
from shop.staff.models import SaleStop
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.money import come_to_rest, deliver, make_due, paid, status
from shop.tests.provider import Crash
from shop.tests.test_staff import an_operator, handed_over

pytestmark = pytest.mark.django_db(transaction=True)

ACT = Act("ann", "wrong price")


def stop(sale: Any, *, handed_over: bool = False) -> SaleStop:
    return stopping.stop_sale(sale.pk, ACT, handed_over=handed_over)


def work_to_the_end(fake_provider: Any) -> None:
    """Do what the workers do within the next minutes."""
    for _ in range(6):
        OutboxMessage.objects.filter(done=None).update(not_before=Now(), dead=None)
        SaleStop.objects.update(started=Now() - timedelta(minutes=2))
        stopping.work()
    come_to_rest(fake_provider)


def test_stop_gives_back_all_orders_but_those_handed_over(fake_provider):
    sale = a_sale(stock=9)
    unpaid, bought, out = an_order(sale), paid(sale), handed_over(sale)
    other = paid(a_sale())
    stop(sale)
    work_to_the_end(fake_provider)
    found = [status(order) for order in (unpaid, bought, out, other)]
    assert found == [Status.CANCELLED, Status.REFUNDED, Status.FULFILLED, Status.PAID]
    stopped = SaleStop.objects.get()
    assert stopped.finished is not None
    assert stopped.found == 2
    kept = unpaid.events.values_list("actor", "reason").get()
    assert kept == ("ann", "wrong price")
    with pytest.raises(Refusal):
        buy(sale.pk, a_buyer().pk, uuid4(), 1)
    stop(sale, handed_over=True)
    work_to_the_end(fake_provider)
    assert status(out) == Status.REFUNDED
    assert book(sale.item_id).available == 9
    assert examine().balanced


def test_stop_takes_its_line_of_a_cart_only(fake_provider):
    sale, other, buyer = a_sale(limit=2), a_sale(), a_buyer()
    wanted = [Wanted(sale.pk, 2), Wanted(other.pk, 1)]
    bought = check_out(buyer.pk, uuid4(), wanted)
    order = payments.pay(Order.objects.get(pk=bought.order.pk))
    stop(sale)
    work_to_the_end(fake_provider)
    order.refresh_from_db()
    assert (order.status, order.refunded) == (Status.PAID, 2 * sale.price)
    assert {line.sale_id: line.live for line in order.lines.all()} == {sale.pk: 0, other.pk: 1}
    assert examine().balanced


def test_stop_leaves_a_cart_alone_whose_line_is_gone_already(fake_provider):
    sale, other, buyer = a_sale(), a_sale(), a_buyer()
    bought = check_out(buyer.pk, uuid4(), [Wanted(sale.pk, 1), Wanted(other.pk, 1)])
    order = payments.pay(Order.objects.get(pk=bought.order.pk))
    stopped = stop(sale)
    payments.refund(order, orders.Part(1, uuid4(), sale.pk))
    stopping.give_back_order({"stop": stopped.pk, "order": order.pk})
    assert status(order) == Status.PAID
    assert {line.sale_id: line.live for line in order.lines.all()} == {sale.pk: 0, other.pk: 1}


def test_stop_pauses_again_what_was_resumed_meanwhile(fake_provider):
    sale = a_sale()
    stopped = stop(sale)
    Sale.objects.filter(pk=sale.pk).update(paused=False)
    with transaction.atomic():
        stopping.read_orders({"stop": stopped.pk})
    sale.refresh_from_db()
    assert sale.paused


def test_stop_waits_for_a_payment_that_may_come_late(fake_provider):
    sale = a_sale()
    order = an_order(sale)
    fake_provider.slow = True
    payments.pay(order)
    make_due(order)
    orders.expire()
    stop(sale)
    for _ in range(3):
        OutboxMessage.objects.filter(done=None).update(not_before=Now())
        SaleStop.objects.update(started=Now() - timedelta(minutes=2))
        stopping.work()
    assert SaleStop.objects.get().finished is None
    deliver(fake_provider)  # it reclaims its units, which are still there
    work_to_the_end(fake_provider)
    assert status(order) == Status.REFUNDED
    assert SaleStop.objects.get().finished is not None
    assert examine().balanced


@pytest.mark.parametrize("where", ["before", "after"])
def test_stop_goes_on_after_a_crash_at_any_order(fake_provider, monkeypatch, where):
    """Each worker dies in the transaction of one order, before or after its act."""
    sale = a_sale(stock=9)
    placed = [paid(sale) if number % 2 else an_order(sale) for number in range(5)]
    stop(sale)
    crashed: set[int] = set()

    def die_once(order: Order, *more: Any) -> None:
        first = order.pk not in crashed
        crashed.add(order.pk)
        if first and where == "before":
            raise Crash
        give_back(order, *more)
        if first:
            raise Crash

    monkeypatch.setattr(stopping, "give_back", die_once)
    for _ in placed:
        with suppress(Crash):
            stopping.work()
    assert crashed == {order.pk for order in placed}
    work_to_the_end(fake_provider)
    for order in placed:
        kinds = list(order.events.values_list("kind", flat=True))
        assert kinds.count("cancelled") + kinds.count("returned") == 1
        assert len(fake_provider.refunds[order.pk]) == len(fake_provider.captures[order.pk])
    assert SaleStop.objects.get().found == 5
    assert book(sale.item_id).available == 9
    assert examine().balanced


def test_stop_sent_twice_at_once_refunds_every_order_once(fake_provider):
    sale = a_sale(stock=20)
    operator = an_operator("stop_sale")
    where = reverse("admin:shop_sale_stop", args=[sale.pk])

    def send(_: int) -> int:
        client = Client()
        client.cookies = operator.cookies
        try:
            return client.post(where, {"reason": "wrong price"}).status_code
        finally:
            connection.close()

    def purchase(buyer: int) -> None:
        try:
            buy(sale.pk, buyer, uuid4(), 1)
        except Refusal:
            pass
        finally:
            connection.close()

    buyers = [a_buyer().pk for _ in range(12)]
    with ThreadPoolExecutor(8) as pool:
        bought = [pool.submit(purchase, buyer) for buyer in buyers]
        assert set(pool.map(send, range(2))) == {302}
        for order in bought:
            order.result()
    assert SaleStop.objects.count() == 1
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_work, range(2)))
    work_to_the_end(fake_provider)
    placed = Order.objects.filter(lines__sale=sale)
    assert set(placed.values_list("status", flat=True)) <= {Status.CANCELLED}
    cancelled = OrderEvent.objects.filter(order__in=placed, kind="cancelled")
    assert cancelled.count() == placed.count()
    assert book(sale.item_id).available == 20


def _work(_: int) -> None:
    try:
        stopping.work()
    finally:
        connection.close()


def test_stop_needs_its_permission_only(fake_provider):
    sale = a_sale()
    order = an_order(sale)
    where = reverse("admin:shop_sale_stop", args=[sale.pk])
    stranger = an_operator("change_sale", "view_sale")
    assert stranger.post(where, {"reason": "x"}).status_code == 403
    operator = an_operator("stop_sale")
    assert operator.post(where, {"reason": " "}).status_code == 200
    assert not SaleStop.objects.exists()
    assert operator.post(where, {"reason": "wrong price"}).status_code == 302
    assert re.search(r"Orders left</th><td>1<", operator.get(where).text)
    work_to_the_end(fake_provider)
    assert re.search(r"Orders given back</th><td>1<", operator.get(where).text)
    assert status(order) == Status.CANCELLED


def test_stopped_sale_is_not_resumed_before_all_is_given_back(admin_client, fake_provider):
    sale = a_sale()
    stop(sale)
    form = {"action": "resume", "_selected_action": [sale.pk]}
    admin_client.post(reverse("admin:shop_sale_changelist"), form)
    sale.refresh_from_db()
    assert sale.paused
    work_to_the_end(fake_provider)
    admin_client.post(reverse("admin:shop_sale_changelist"), form)
    sale.refresh_from_db()
    assert not sale.paused


def test_first_page_shows_sales_work_and_money_of_today(admin_client, fake_provider, settings):
    settings.CURRENCY = "CNY"
    sale = a_sale(stock=9, limit=3, price=10_000)
    payments.pay(an_order(sale, quantity=3))
    payments.refund(paid(sale))
    an_order(sale, quantity=2)
    Payment.objects.filter(order=paid(sale)).update(settled=Now() - timedelta(days=2))
    recovery.settle()
    Alert.objects.create(key="x", text="order 7 is odd")
    page = admin_client.get(reverse("admin:index")).text
    row = re.search(rf"shop/sale/{sale.pk}/change/.*?</tr>", page, re.DOTALL)
    assert row
    assert re.findall(r"<td>(\d+)</td>", row[0]) == ["4", "3", "2"], "sold, left, unpaid"
    assert re.search(r"status__exact=paid\">2 orders to hand over", page)
    assert "order 7 is odd" in page
    money = re.findall(r"<td>([\d.]+ CNY)</td>", page)
    assert money == ["400.00 CNY", "100.00 CNY", "300.00 CNY"]


def test_first_page_shows_only_what_its_user_may_see():
    an_order(a_sale())
    page = an_operator("view_alert").get(reverse("admin:index")).text
    assert "Money today" not in page
    assert "Sales on now" not in page
