"""Purchases and carts by the API: what is sold, refused, replayed, and left unknown."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import uuid4, uuid5

import pytest
from django.db import OperationalError, connection

from inventory import services
from inventory.models import Item, Reservation
from inventory.outcomes import Busy, OutcomeUnknown
from inventory.tests.helpers import at_once
from shop.api import views
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.tests.catalogue import a_sale
from shop.tests.openapi import refused

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_key_may_be_written_in_capitals(ann, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert ann.buy(sale, key=str(key).upper()).status_code == 200


def test_the_price_is_the_one_of_the_moment_of_the_purchase(ann, sale):
    sale_cache().refresh(sale.pk)
    type(sale).objects.filter(pk=sale.pk).update(price=1250)
    assert ann.buy(sale, 2).json()["amount"] == {"amount": 2500, "currency": "CNY"}
    assert ann.get(f"sales/{sale.pk}").json()["price"] == {"amount": 1250, "currency": "CNY"}


@pytest.mark.django_db(transaction=True)
def test_a_buyer_who_was_deleted_is_refused_and_those_in_the_same_batch_are_not(ann, bob, sale):
    bob.user.delete()
    answers = at_once([partial(each.buy, sale) for each in (ann, bob, bob)])
    assert [answer.status_code for answer in answers] == [201, 401, 401]
    refused(answers[1], 401, "unauthorized")
    assert Item.objects.get(pk=sale.item_id).available == 9


def test_a_database_that_fails_in_a_write_leaves_its_outcome_unknown(ann, sale, monkeypatch):
    order = ann.order(sale)

    def fail(*_):
        raise OperationalError

    monkeypatch.setattr(views.payments, "pay", fail)  # type: ignore[attr-defined]
    refused(ann.post(f"orders/{order}/payment"), 503, "outcome_unknown")
    monkeypatch.setattr(views, "order_document", fail)
    refused(ann.get(f"orders/{order}"), 503, "busy")


def purchase(buyer, *sales, cart):
    """Buy one unit of each sale, or of the last one only."""
    if not cart:
        return buyer.buy(sales[-1])
    body = {"lines": [{"sale": sale.pk, "quantity": 1} for sale in sales]}
    return buyer.call("POST", "orders", body, idempotency_key=str(uuid4()))


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize("cart", [False, True])
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ("paused = true", 403, "paused"),
        ("ends_at = starts_at + interval '1 microsecond'", 410, "ended"),
        ("starts_at = now() + interval '1 hour'", 403, "not_started"),
    ],
)
def test_a_process_that_remembers_a_sale_as_open_sells_nothing_once_it_is_not(
    change, status, code, cart, ann, sale_of
):
    """The sale's row decides in the purchase's transaction, by the database's clock."""
    sales = [sale_of(starts_in=timedelta(minutes=-1)) for _ in range(2)]
    for sale in sales:
        sale_cache().refresh(sale.pk)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_sale SET {change} WHERE id = %s", [sales[-1].pk])
    assert sale_cache().get(sales[-1].pk).closed() is None, "it is still remembered as open"
    answer = purchase(ann, *sales, cart=cart)
    refused(answer, status, code)
    assert answer.json().get("sale") == (sales[-1].pk if cart else None)


@pytest.mark.parametrize("cart", [False, True])
@pytest.mark.parametrize(
    ("error", "code"), [(Busy("full"), "busy"), (OutcomeUnknown("cut"), "outcome_unknown")]
)
def test_a_purchase_without_an_outcome_is_not_told_as_refused_and_when_to_ask_again(
    error, code, cart, ann, sale, monkeypatch
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(services, "reserve_many" if cart else "reserve", fail)
    answer = purchase(ann, sale, cart=cart)
    refused(answer, 503, code)
    assert int(answer["Retry-After"]) >= 1


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


def test_the_keys_of_the_lines_are_those_that_the_api_describes(ann):
    sales, key = sorted([a_sale(), a_sale()], key=lambda sale: sale.pk), uuid4()
    send(ann, (sales[1], 1), (sales[0], 1), key=key)
    keys = dict(Reservation.objects.values_list("scope", "key"))
    assert keys == {sales[0].pk: key, sales[1].pk: uuid5(key, "1")}
