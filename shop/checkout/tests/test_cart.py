"""Carts: several sales in one order, all or none."""

from __future__ import annotations

from collections import Counter
from functools import partial
from uuid import uuid4, uuid5

import pytest
from django.db import connection

from inventory.audit import audit
from inventory.models import Item, Reservation
from inventory.tests.helpers import at_once
from shop.audit.report import mismatches
from shop.catalogue.models import Sale
from shop.checkout.purchase import Wanted, check_out
from shop.orders.models import Order, OrderLine
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, a_sale

pytestmark = pytest.mark.django_db(transaction=True)


def send(buyer, *lines: tuple[Sale, object], key: object = None):
    """Send a cart; lines of (sale, quantity)."""
    body = {"lines": [{"sale": sale.pk, "quantity": quantity} for sale, quantity in lines]}
    return buyer.call("POST", "orders", body, idempotency_key=str(key or uuid4()))


def test_a_quantity_that_is_none_is_refused_with_its_place(ann):
    first, failing = a_sale(), a_sale()
    document = send(ann, (first, 1), (failing, 0)).json()
    assert document["code"] == "invalid_quantity"
    assert "$.lines[1].quantity" in document["detail"]
    assert Reservation.objects.count() == 0


def said(answer) -> tuple[int, str, int | None]:
    document = answer.json()
    return answer.status_code, document["code"], document.get("sale")


def available(*sales: Sale) -> list[int]:
    return [Item.objects.get(pk=sale.item_id).available for sale in sales]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"lines": []},
        {"lines": "all"},
        {"lines": [3]},
        {"lines": [{"quantity": 1}]},
        {"lines": [{"sale": True, "quantity": 1}]},
        {"lines": [{"sale": 2**63, "quantity": 1}]},
        {"lines": [{"sale": 1, "quantity": 1}, {"sale": 1, "quantity": 1}]},
        {"lines": [{"sale": sale, "quantity": 1} for sale in range(1, 22)]},
    ],
)
def test_what_is_no_cart_is_refused(ann, body):
    answer = ann.call("POST", "orders", body, idempotency_key=str(uuid4()))
    assert said(answer) == (422, "invalid_cart", None)


def test_a_cart_sent_thirty_times_at_once_is_one_order(ann):
    one, two, key = a_sale(limit=9), a_sale(limit=9), uuid4()
    answers = at_once([partial(closing, send, ann, (one, 1), (two, 1), key=key)] * 30)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 29}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert available(one, two) == [9, 9]


def test_crossing_carts_of_many_buyers_sell_exactly_what_there_is():
    sales = [a_sale(stock=20) for _ in range(3)]
    calls = [
        partial(closing, attempt, a_buyer().pk, [sales[n % 3].pk, sales[(n + 1 + n % 2) % 3].pk])
        for n in range(60)
    ]
    outcomes = Counter(at_once(calls))
    assert outcomes.keys() <= {"ordered", "sold_out"}
    assert Order.objects.count() == outcomes["ordered"]
    assert OrderLine.objects.count() == 2 * outcomes["ordered"]
    assert sum(available(*sales)) == 60 - 2 * outcomes["ordered"]
    # A refused buyer met an item that had run out.
    assert available(*sales).count(0) >= 1
    assert audit().problems == mismatches() == []


def attempt(buyer: int, sales: list[int]) -> str:
    try:
        check_out(buyer, uuid4(), [Wanted(sale, 1) for sale in sales])
    except Refusal as refusal:
        return refusal.code
    return "ordered"


def closing(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    finally:
        connection.close()


def test_the_keys_of_the_lines_are_those_that_the_api_describes(ann):
    sales, key = sorted([a_sale(), a_sale()], key=lambda sale: sale.pk), uuid4()
    send(ann, (sales[1], 1), (sales[0], 1), key=key)
    keys = dict(Reservation.objects.values_list("scope", "key"))
    assert keys == {sales[0].pk: key, sales[1].pk: uuid5(key, "1")}
