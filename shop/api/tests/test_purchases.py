"""The API of a sale: what it shows, what it sells, and what it refuses to sell."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db import OperationalError, connection

from inventory import services
from inventory.models import Item
from inventory.outcomes import Busy, OutcomeUnknown
from inventory.tests.helpers import at_once
from shop.api import views
from shop.api.tests.answers import cny, refused
from shop.catalogue.sale_cache import sale_cache

pytestmark = pytest.mark.django_db


def test_a_key_may_be_written_in_capitals(ann, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert ann.buy(sale, key=str(key).upper()).status_code == 200


def test_the_price_is_the_one_of_the_moment_of_the_purchase(ann, sale):
    sale_cache().refresh(sale.pk)
    type(sale).objects.filter(pk=sale.pk).update(price=1250)
    assert ann.buy(sale, 2).json()["amount"] == cny(25)
    assert ann.get(f"sales/{sale.pk}").json()["price"] == cny(12.5)


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
    refused(purchase(ann, *sales, cart=cart), status, code)


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


def test_however_often_a_sale_is_looked_at_it_is_read_once_per_second(
    ann, sale_of, django_assert_num_queries
):
    sale = sale_of(1)
    ann.order(sale)
    with django_assert_num_queries(1):
        shown = [ann.get(f"sales/{sale.pk}").json() for _ in range(10)]
    assert {(each["status"], each["may_come_back"]) for each in shown} == {("sold_out", True)}
    times = [each["server_time"] for each in shown]
    assert times == sorted(set(times)), "each answer has its own time"


@pytest.mark.parametrize("change", ["paused = true", "ends_at = starts_at + interval '1 us'"])
def test_a_key_is_replayed_after_the_sale_was_closed(change, ann, sale_of):
    sale, key = sale_of(starts_in=timedelta(minutes=-1)), uuid4()
    first = ann.buy(sale, key=key)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_sale SET {change} WHERE id = %s", [sale.pk])
    assert sale_cache().refresh(sale.pk).closed() is not None
    again = ann.buy(sale, key=key)
    assert (again.status_code, again.json()) == (200, first.json())
    refused(ann.buy(sale, 2, key=key), 422, "idempotency_key_reused")
