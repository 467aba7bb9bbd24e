"""Unpaid orders expire once: soon by the delay queue, certainly by the sweep."""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F
from django.db.models.functions import Now

from inventory import services
from inventory.models import Item, Reservation
from inventory.redis import client
from inventory.tests.helpers import at_once
from shop import orders, payments
from shop.background import expiry, follow_up, tasks
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.mails import mail
from shop.tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

BLINK = timedelta(milliseconds=200)
LONG = timedelta(minutes=15)


@pytest.fixture(autouse=True)
def empty_queue():
    client().delete("queue:{orders}", "queue:{orders}:in-flight")


def available(order: Order) -> int:
    return Item.objects.get(pk=order.lines.get().sale.item_id).available


def status(order: Order) -> str:
    return Order.objects.get(pk=order.pk).status


def waiting() -> int:
    return len(expiry.queue()) + int(expiry.queue().in_flight())


def move_deadlines(by: timedelta) -> None:
    """Move the deadlines in the database only, not in the queue."""
    Order.objects.update(pay_before=F("pay_before") + by)
    Reservation.objects.update(deadline=F("deadline") + by)


def make_due(*ids: object) -> None:
    expiry.queue().enqueue([str(one) for one in ids], -1, reschedule=True)


def test_an_unpaid_order_expires_by_the_queue_and_its_units_are_back():
    order = an_order(a_sale(hold=LONG))
    follow_up.follow_up()
    assert (waiting(), expiry.expire_due()) == (1, 0)
    move_deadlines(-LONG)
    make_due(order.pk)
    assert expiry.expire_due() == 1
    assert (status(order), available(order), waiting()) == ("expired", 10, 0)
    follow_up.follow_up()
    assert mail(order, "expired").count() == 1


def test_buying_does_not_wait_for_the_queue():
    """It enters the queue in the follow-up, which keeps the hot path short."""
    an_order(a_sale())
    assert waiting() == 0


def test_a_sold_out_item_can_be_bought_the_moment_an_order_of_it_expires():
    """The hint said sold out; the release corrects it before it returns."""
    sale = a_sale(stock=1, hold=LONG)
    order = an_order(sale)
    follow_up.follow_up()
    with pytest.raises(Exception, match="sold_out"):
        an_order(sale)
    move_deadlines(-LONG)
    make_due(order.pk)
    assert expiry.expire_due() == 1
    assert an_order(sale).status == "awaiting_payment"


def test_an_order_that_is_early_by_the_databases_clock_waits_on():
    """The queue's clock is Redis's; the database's decides."""
    order = an_order(a_sale(hold=LONG))
    make_due(order.pk)
    assert expiry.expire_due() == 0
    assert (status(order), available(order), waiting()) == ("awaiting_payment", 9, 1)
    due = expiry.queue().next_due()
    seconds, _ = client().time()
    assert due is not None
    assert 800 < due - seconds <= 901, "entered again for the time left by the database's clock"
    move_deadlines(-LONG)
    make_due(order.pk)
    assert expiry.expire_due() == 1


def test_a_paid_order_that_is_still_in_the_queue_is_left_alone():
    order = an_order(a_sale())
    payments.pay(order)
    move_deadlines(-LONG)
    make_due(order.pk)
    assert expiry.expire_due() == 0
    assert (status(order), available(order), waiting()) == ("paid", 9, 0)


def test_an_order_that_left_the_queue_is_not_in_it():
    first, second = an_order(a_sale()), an_order(a_sale())
    follow_up.follow_up()
    expiry.leave([first.pk])
    assert waiting() == 1
    make_due(second.pk)
    assert [one.id for one in expiry.queue().pop(9)] == [str(second.pk)]


def test_orders_popped_by_a_crashed_consumer_return_to_the_queue(monkeypatch):
    order = an_order(a_sale())
    move_deadlines(-LONG)
    make_due(order.pk)
    monkeypatch.setattr(expiry.queue(), "_claim", 0.2)
    assert len(expiry.queue().pop()) == 1  # then the consumer dies
    assert expiry.expire_due() == 0
    wait_for(lambda: expiry.expire_due() == 1)
    assert (status(order), waiting()) == ("expired", 0)


def test_an_order_stays_in_the_queue_until_its_expiry_is_committed(monkeypatch):
    order = an_order(a_sale())
    move_deadlines(-LONG)
    make_due(order.pk)

    def fail(_):
        raise OperationalError

    monkeypatch.setattr(orders, "expire_those", fail)
    with pytest.raises(OperationalError):
        expiry.expire_due()
    assert waiting() == 1


def test_with_redis_emptied_the_sweep_expires_it():
    order = an_order(a_sale(hold=BLINK))
    follow_up.follow_up()
    client().delete("queue:{orders}")
    assert expiry.expire_due() == 0
    wait_for(orders.expire)
    assert (status(order), available(order)) == ("expired", 10)


def test_one_order_that_cannot_expire_does_not_block_the_others(monkeypatch, caplog):
    sale = a_sale()
    several = [an_order(sale) for _ in range(5)]
    move_deadlines(-LONG)
    expire_those = orders.expire_those

    def fail(ids):
        if several[2].pk in ids:
            raise RuntimeError("impossible")
        return expire_those(ids)

    monkeypatch.setattr(orders, "expire_those", fail)
    make_due(*[order.pk for order in several])
    assert expiry.expire_due() == 4
    assert "could not be expired" in caplog.text
    assert Order.objects.filter(status="expired").count() == 4
    assert waiting() == 0


def test_one_order_that_the_sweep_cannot_expire_does_not_keep_the_others(caplog):
    sale = a_sale()
    several = [an_order(sale) for _ in range(5)]
    move_deadlines(-LONG)
    # A contradiction, which nobody resolves by himself: it is paid, and its unit is only held.
    Order.objects.filter(pk=several[2].pk).update(status="paid")
    assert orders.expire() == 4
    assert "could not be expired" in caplog.text
    assert Order.objects.filter(status="expired").count() == 4


def test_queue_sweep_payment_and_cancel_at_once_give_each_unit_back_once():
    """Whichever wins an order: its unit is sold or returned exactly once, or the books fail."""
    sale = a_sale(stock=60)
    several = [an_order(sale) for _ in range(60)]
    follow_up.follow_up()
    move_deadlines(-LONG)
    late = {order.pk for order in several[::3]}
    not_due = Order.objects.exclude(pk__in=late)
    not_due.update(pay_before=Now() + LONG)
    Reservation.objects.filter(orderline__order__in=not_due).update(deadline=Now() + LONG)
    make_due(*[order.pk for order in several])

    def attempt(change):
        for order in several[1::3]:
            with suppress(orders.WrongState):
                change(Order.objects.get(pk=order.pk))

    everybody: list[Any] = [
        *(expiry.expire_due, orders.expire, expiry.expire_due),
        *(partial(attempt, payments.pay), partial(attempt, orders.cancel)),
    ]
    at_once(everybody)
    orders.expire()
    sold = Order.objects.filter(status="paid").count()
    back = Order.objects.filter(status__in=["expired", "cancelled"]).count()
    assert Order.objects.filter(status="expired").count() == 20
    assert sold + back == 40
    assert Item.objects.get(pk=sale.item_id).available == 60 - 20 - sold


def test_sold_out_says_whether_units_may_come_back(client):
    sale = a_sale(stock=1)
    order = an_order(sale)
    page = f"/sales/{sale.pk}/"
    assert services.may_come_back(sale.item_id)
    assert b"data-badge>All reserved, may come back" in client.get(page).content
    payments.pay(order)
    assert not services.may_come_back(sale.item_id)
    assert b"data-badge>All reserved, may come back" not in client.get(page).content
    assert b"data-badge>Sold out" in client.get(page).content


def test_a_refusal_says_that_units_may_come_back_in_the_buyers_language(ann, sale_of):
    sale = sale_of(stock=1)
    order = an_order(sale, a_buyer())
    english = ann.buy(sale).json()
    chinese = ann.buy(sale, accept_language="zh-CN").json()
    assert english["code"] == chinese["code"] == "sold_out"
    assert english["may_come_back"] is chinese["may_come_back"] is True
    assert "go back on sale" in english["detail"]
    assert "重新上架" in chinese["detail"]
    shown = ann.get(f"sales/{sale.pk}").json()
    assert (shown["status"], shown["may_come_back"]) == ("sold_out", True)
    payments.pay(order)
    wait_for(lambda: not ann.get(f"sales/{sale.pk}").json()["may_come_back"])
    wait_for(lambda: "may_come_back" not in ann.buy(sale).json())


def test_a_backlog_is_expired_in_slices_that_make_room_for_other_tasks(monkeypatch):
    """After a large sale with few payments, all orders are due at once; follow-ups do not wait."""
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    monkeypatch.setattr(services, "due", partial(services.due, 1))
    monkeypatch.setattr(tasks, "SLICE", 0)
    asked: list[str] = []
    monkeypatch.setattr(tasks, "_ask_for", lambda task: asked.append(task.name))
    sale = a_sale()
    several = [an_order(sale) for _ in range(4)]
    move_deadlines(-LONG)
    make_due(*[order.pk for order in several])
    assert [tasks.expire_due(), tasks.expire_due(), tasks.expire_orders()] == [1, 1, 1]
    assert asked == ["shop.expire_due"] * 2 + ["shop.expire_orders"], "each continues as a new task"
    monkeypatch.undo()
    orders.expire()
    assert (tasks.expire_orders(), available(several[0])) == (0, 10)
