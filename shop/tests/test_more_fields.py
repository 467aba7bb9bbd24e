"""Sales continue after a team adds fields to its orders."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.core import checks
from django.db import models

from inventory.tests.helpers import at_once, book, more_fields, rows
from shop.conftest import Buyer
from shop.orders.creation import OPEN_ORDERS
from shop.orders.models import Order, OrderLine
from shop.payments.models import WebhookEvent

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
        answers = at_once([partial(buyer.buy, sale) for buyer in buyers])
        orders = rows(Order)
    assert Counter(answer.status_code for answer in answers) == {201: 12, 409: 8}
    assert len(orders) == 12
    assert {row["channel"] for row in orders} == {"web 100%"}
    assert {(row["remark"], row["status"], row["refunded"]) for row in orders} == {
        ("", "awaiting_payment", 0)
    }
    assert len({row["reference"] for row in orders}) == 12
    assert book(sale.item_id).held == 12


def test_lines_with_added_fields_are_sold_with_their_defaults(sale, ann):
    with more_fields(
        OrderLine,
        OPEN_ORDERS,
        gift=models.BooleanField(default=False),
        label=models.UUIDField(default=uuid4),
    ):
        order = ann.order(sale, 2)
        [line] = rows(OrderLine)
    assert (line["order_id"], line["gift"], line["quantity"]) == (order, False, 2)
    assert line["label"]


def test_fields_that_nothing_would_fill_in_are_told():
    field: Any = models.IntegerField(default=1)
    with more_fields(Order, number=field):
        assert checks.run_checks() == []
        field.default = models.NOT_PROVIDED
        field.__dict__.pop("_get_default", None)
        assert [each.id for each in checks.run_checks()] == ["shop.E001"]
    with more_fields(WebhookEvent, colour=models.CharField(max_length=5, default="red")):
        assert [each.id for each in checks.run_checks()] == ["shop.E002"]
