"""A team adds fields to its orders, and goes on selling."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import pytest
from django.db import models

from inventory.tests.helpers import at_once, book, more_fields
from shop.models import Order, OrderLine
from shop.orders.opening import OPEN_ORDERS
from shop.tests.conftest import Buyer

pytestmark = pytest.mark.django_db(transaction=True)


def test_orders_with_added_fields_are_sold_with_their_defaults(sale_of):
    sale = sale_of(stock=12, limit=1)
    buyers = [Buyer(f"buyer {number}") for number in range(20)]
    with more_fields(
        Order,
        OPEN_ORDERS,
        channel=models.CharField(max_length=10, default="web 100%"),
        remark=models.TextField(),
        reference=models.UUIDField(default=uuid4, unique=True),
        touched=models.DateTimeField(auto_now=True),
    ):
        answers = at_once([lambda buyer=buyer: buyer.buy(sale) for buyer in buyers])
        rows = list(Order.objects.values("channel", "remark", "reference", "status", "refunded"))
    assert Counter(answer.status_code for answer in answers) == {201: 12, 409: 8}
    assert len(rows) == 12
    assert {row["channel"] for row in rows} == {"web 100%"}
    assert {(row["remark"], row["status"], row["refunded"]) for row in rows} == {
        ("", "awaiting_payment", 0)
    }
    assert len({row["reference"] for row in rows}) == 12
    assert book(sale.item_id).held == 12


def test_lines_with_added_fields_are_sold_with_their_defaults(sale, ann):
    with more_fields(
        OrderLine,
        OPEN_ORDERS,
        gift=models.BooleanField(default=False),
        label=models.UUIDField(default=uuid4),
    ):
        order = ann.order(sale, 2)
        [line] = OrderLine.objects.filter(order=order).values("gift", "label", "quantity")
    assert (line["gift"], line["quantity"]) == (False, 2)
    assert line["label"]
