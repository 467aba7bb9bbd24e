"""The API of a sale: what it shows, what it sells, and what it refuses to sell."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db import connection

from inventory import services
from inventory.models import Item
from inventory.outcomes import Busy, OutcomeUnknown
from inventory.tests.helpers import at_once
from shop.api.tests.answers import cny, refused
from shop.catalogue.sale_cache import sale_cache

pytestmark = pytest.mark.django_db


def test_a_key_may_be_written_in_capitals(ann, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert ann.buy(sale, key=str(key).upper()).status_code == 200


def test_another_buyer_may_have_the_same_key(ann, bob, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert bob.buy(sale, key=key).status_code == 201


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ("paused = true", 403, "paused"),
        ("ends_at = starts_at + interval '1 microsecond'", 410, "ended"),
        ("starts_at = now() + interval '1 hour'", 403, "not_started"),
    ],
)
def test_a_process_that_remembers_the_sale_as_open_sells_nothing_once_it_is_not(
    change, status, code, ann, sale_of
):
    """The sale's row decides in the purchase's transaction, by the database's clock."""
    sale = sale_of(starts_in=timedelta(minutes=-1))
    sale_cache().refresh(sale.pk)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_sale SET {change} WHERE id = %s", [sale.pk])
    assert sale_cache().get(sale.pk).closed() is None, "it is still remembered as open"
    refused(ann.buy(sale), status, code)


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


def test_the_price_is_the_one_of_the_moment_of_the_purchase(ann, sale):
    sale_cache().refresh(sale.pk)
    type(sale).objects.filter(pk=sale.pk).update(price=1250)
    assert ann.buy(sale, 2).json()["amount"] == cny(25)
    assert ann.get(f"sales/{sale.pk}").json()["price"] == cny(12.5)


def test_a_refusal_that_may_be_tried_again_says_when(ann, sale, monkeypatch):

    for error, code in ((Busy("full"), "busy"), (OutcomeUnknown("cut"), "outcome_unknown")):

        def fail(*arguments, error=error, **more):
            raise error

        monkeypatch.setattr(services, "reserve", fail)
        answer = ann.buy(sale)
        refused(answer, 503, code)
        assert int(answer["Retry-After"]) >= 1
    assert "Retry-After" not in ann.buy(sale, 0)


def test_a_sale_can_be_looked_at_by_anybody(ann, sale):
    document = ann.get(f"sales/{sale.pk}", authorization="").json()
    moments = {name: datetime.fromisoformat(document[name]) for name in ("starts_at", "ends_at")}
    assert moments["ends_at"] - moments["starts_at"] == timedelta(days=1)
    assert datetime.fromisoformat(document["server_time"]).utcoffset() == timedelta(0)
    expected = {"price": cny(999), "limit": 2, "available": 10, "status": "open"}
    assert expected.items() <= document.items()


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


@pytest.mark.django_db(transaction=True)
def test_a_buyer_who_was_deleted_is_refused_and_those_in_the_same_batch_are_not(ann, bob, sale):
    bob.user.delete()
    answers = at_once([partial(each.buy, sale) for each in (ann, bob, bob)])
    assert [answer.status_code for answer in answers] == [201, 401, 401]
    refused(answers[1], 401, "unauthorized")
    assert Item.objects.get(pk=sale.item_id).available == 9


def test_no_answer_sets_a_cookie(ann, sale):
    answers = [ann.buy(sale), ann.get(f"sales/{sale.pk}"), ann.buy(sale, 0)]
    assert [dict(answer.cookies) for answer in answers] == [{}] * 3


def test_every_answer_says_its_length(ann, sale):
    for answer in (ann.buy(sale), ann.buy(sale, 0)):
        assert int(answer["Content-Length"]) == len(answer.content)
        assert json.loads(answer.content)
