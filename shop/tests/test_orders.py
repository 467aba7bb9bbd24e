"""Orders: crowds, and sessions that hold a lock."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection

from inventory.models import Item, OutboxMessage, StockMovement
from inventory.tests.helpers import (
    at_once,
    book,
    in_thread,
    kinds,
    outsider,
    wait_until_blocked,
)
from shop import orders, payments
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.checkout import Bought, buy
from shop.orders import WrongState
from shop.orders.models import Order
from shop.refusals import Refusal
from shop.tests.catalogue import a_sale
from shop.tests.money import (
    make_due,
    paid,
)

pytestmark = pytest.mark.django_db(transaction=True)


Status = Order.Status


@pytest.fixture
def buyers() -> list[int]:
    """Return the ids of sixty users."""
    users = [User(username=f"buyer {n}", password="!") for n in range(60)]
    return [user.pk for user in User.objects.bulk_create(users)]


def order(sale: Sale, buyer: int, quantity: int = 1) -> Order:
    """Buy, and read the order as another request does."""
    return Order.objects.get(pk=buy(sale.pk, buyer, uuid4(), quantity).order.pk)


def statuses(sale: Sale) -> dict[str, int]:
    found = list(Order.objects.filter(lines__sale=sale).values_list("status", flat=True))
    return {status: found.count(status) for status in set(found)}


def returns(sale: Sale) -> list[int]:
    """Return the movements that returned stock."""
    found = StockMovement.objects.filter(item=sale.item_id, reason="release")
    return list(found.order_by("pk").values_list("delta", flat=True))


def in_the_outbox(topic: str) -> list[int]:
    """Return the orders that the messages of a topic name."""
    payloads = OutboxMessage.objects.filter(topic=topic).values_list("payload", flat=True)
    return sorted(pk for payload in payloads for pk in payload["orders"])


def test_each_buyer_of_a_crowd_gets_the_own_order_until_all_units_are_sold(sale_of, buyers):
    sale = sale_of(50, limit=2)
    calls = [
        partial(buy, sale.pk, buyer, uuid4(), 1 + number % 2) for number, buyer in enumerate(buyers)
    ]
    answers = at_once(calls)
    assert {each.code for each in answers if isinstance(each, Refusal)} == {"sold_out"}
    assert book(sale.item_id).available == 0
    assert book(sale.item_id).held == 50
    for number, (buyer, answer) in enumerate(zip(buyers, answers, strict=True)):
        if isinstance(answer, Bought):
            line = Order.objects.get(pk=answer.order.pk, buyer=buyer).lines.get()
            assert (line.reservation.buyer, line.quantity) == (buyer, 1 + number % 2)
            assert answer.order.amount == line.price * line.quantity
    told = sorted(each.order.pk for each in answers if isinstance(each, Bought))
    assert (
        told == sorted(Order.objects.values_list("pk", flat=True)) == in_the_outbox(orders.OPENED)
    )


def test_an_expiry_during_a_payment_leaves_the_order_paid(buyers):
    """The payment began in time and commits later; the sweep waits for it and skips the order."""
    sale = a_sale()
    mine = order(sale, buyers[0])
    make_due(mine)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("UPDATE inventory_reservation SET state = 'confirmed'")
        session.execute("UPDATE shop_order SET status = 'paid'")
        with in_thread(orders.expire) as sweep:
            wait_until_blocked(1)
            session.execute("COMMIT")
            assert sweep() == 0
    assert statuses(sale) == {"paid": 1}
    assert (book(sale.item_id).confirmed, returns(sale)) == (1, [])


def test_a_payment_during_an_expiry_reclaims_the_unit(buyers):
    sale = a_sale()
    mine = order(sale, buyers[0])
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM inventory_reservation FOR UPDATE")
        with in_thread(partial(payments.pay, mine)) as payment:
            wait_until_blocked(1)
            session.execute("SELECT FROM inventory_item FOR NO KEY UPDATE")
            session.execute(
                "UPDATE inventory_item SET available = available + 1, version = version + 1"
            )
            session.execute(
                "INSERT INTO inventory_stockmovement (item_id, delta, reason)"
                " SELECT id, 1, 'release' FROM inventory_item"
            )
            session.execute("UPDATE inventory_reservation SET state = 'released'")
            session.execute("UPDATE inventory_buyerquota SET used = 0")
            session.execute("UPDATE shop_order SET status = 'expired'")
            session.execute("COMMIT")
            assert payment().status == Status.PAID
    assert mine.events.get().kind == "paid_late"
    assert (book(sale.item_id).available, book(sale.item_id).confirmed) == (9, 1)


def test_buying_cancelling_and_expiring_all_at_once_leaves_balanced_books(sale_of, buyers):
    sale = sale_of(10, limit=3, hold=timedelta(milliseconds=30))

    def buy_and_regret(buyer: int) -> None:
        for n in range(4):
            try:
                mine = order(sale, buyer)
                if n % 2:
                    orders.cancel(mine)
            except (Refusal, WrongState):
                orders.expire()

    answers = at_once([partial(buy_and_regret, buyer) for buyer in buyers[:12]])
    assert kinds(answers) == {"NoneType": 12}
    make_due(*Order.objects.filter(status=Status.AWAITING_PAYMENT))
    while orders.expire():
        pass
    assert (book(sale.item_id).available, book(sale.item_id).held) == (10, 0)
    assert Item.objects.get(pk=sale.item_id).reserved == 0
    assert sum(returns(sale)) == Order.objects.filter(lines__sale=sale).count()


def test_the_timeline_is_never_rewritten_and_a_refund_never_deleted(sale):
    payments.refund(paid(sale))
    for forbidden in (
        "UPDATE shop_orderevent SET kind = 'cancelled'",
        "DELETE FROM shop_orderevent",
        "DELETE FROM shop_refund",
    ):
        with pytest.raises(IntegrityError), connection.cursor() as cursor:
            cursor.execute(forbidden)
