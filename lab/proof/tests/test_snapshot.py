"""A snapshot shows what an order's price, time and life are judged by, and what is still owed."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection

from lab.proof import sales, snapshot
from loadtest.checker import snapshot as rows
from shop import orders
from shop.accounts.models import User
from shop.background.follow_up import follow_up
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order, mail

pytestmark = pytest.mark.django_db(transaction=True)


def microseconds(column: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT extract(epoch FROM {column}) FROM shop_order")
        return int(cursor.fetchone()[0] * 1_000_000)


def test_a_snapshot_shows_terms_times_and_the_life_of_an_order(tmp_path: Path) -> None:
    sale = a_sale(
        price=333, limit=10, hold=timedelta(seconds=3.5), currency="EUR", restock_cancelled=False
    )
    buyer = User.objects.create(username="ann", email="ann@example.com")
    order = an_order(sale, buyer, quantity=5)
    orders.cancel(order, orders.Part(2, uuid4()))
    before = (time.monotonic_ns(), sales.clock())
    (tmp_path / "final").write_text("".join(snapshot.lines([sale.pk])))
    after = (time.monotonic_ns(), sales.clock())
    header, found = rows.read(tmp_path / "final")
    of = {type(row): row for row in found}

    assert before[0] <= header.taken_at <= after[0]
    assert before[1] <= header.clock <= after[1]
    item, hold = str(sale.item_id), 3_500_000
    assert of[rows.Sale] == rows.Sale(str(sale.pk), item, 10, 333, "EUR", hold, False, True)
    told = of[rows.Order]
    assert isinstance(told, rows.Order)
    assert (told.amount, told.to_pay, told.refunded) == (5 * 333, 3 * 333, 0)
    assert told.created == microseconds("created")
    assert told.pay_before == microseconds("pay_before") == told.created + hold
    held = of[rows.Reservation]
    assert isinstance(held, rows.Reservation)
    assert (held.quantity, held.returned, held.deadline) == (5, 2, told.pay_before)
    event = of[rows.Event]
    assert isinstance(event, rows.Event)
    assert (event.order, event.name) == (str(order.pk), "part_cancelled")
    assert (event.amount, event.quantity, event.sale) == (2 * 333, 2, str(sale.pk))
    assert told.created <= event.at <= before[1]
    assert of[rows.Buyer] == rows.Buyer(str(buyer.pk), "ann@example.com")


def test_a_buyer_without_an_address_has_the_one_that_the_shop_writes_to(tmp_path: Path) -> None:
    sale, buyer = a_sale(), a_buyer()
    an_order(sale, buyer)
    (tmp_path / "final").write_text("".join(snapshot.lines([sale.pk])))
    _, found = rows.read(tmp_path / "final")
    told = [row for row in found if isinstance(row, rows.Buyer)]
    assert told == [rows.Buyer(str(buyer.pk), f"{buyer.username}@localhost")]


def test_what_expires_before_the_final_read_is_owed_until_its_mail_is_sent() -> None:
    lasting, brief = a_sale(), a_sale(hold=timedelta(milliseconds=1))
    an_order(lasting)
    order = an_order(brief)
    follow_up()
    assert snapshot.owed([lasting.pk]) == 0
    assert snapshot.owed([brief.pk]) == 1, "the expiry"
    assert orders.expire() == 1
    assert Order.objects.get(pk=order.pk).status == "expired"
    assert snapshot.owed([brief.pk]) == 1, "the message about it"
    follow_up()
    assert snapshot.owed([brief.pk]) == 0
    expired = mail(order, "expired")
    expired.update(done=None)
    assert snapshot.owed([brief.pk]) == 1, "the mail"
    expired.update(dead=Order.objects.get(pk=order.pk).created)
    assert snapshot.owed([brief.pk]) == 0, "nobody tries it again"
