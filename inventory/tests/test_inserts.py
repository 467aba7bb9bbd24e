"""Fields that a team adds to a model get their defaults in rows written by SQL too."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, models, transaction
from django.test.utils import isolate_apps
from django.utils import timezone

from inventory.models import Item, OutboxMessage, Reservation
from inventory.outcomes import Granted, PurchaseTicket
from inventory.selling import batch
from inventory.sql import Insert, made_by_django, without_value
from inventory.tests.helpers import (
    book,
    crowd,
    kinds,
    more_fields,
    new_purchase,
    open_nothing,
    rows,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)

more = partial(more_fields, Reservation, batch.RESERVE)


class Stamp(models.CharField):  # type: ignore[type-arg]  # Django's has none at run time
    """A field that computes its value on save."""

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        return f"stamped {type(model_instance).__name__} {uuid4().hex}"


def test_every_kind_of_default_is_what_django_would_write(stock):
    item = stock(40)
    before = timezone.now()
    with more(
        note=models.CharField(max_length=20, default="50% {off}, 'now'"),
        empty=models.CharField(max_length=20),
        gift=models.BooleanField(default=True),
        weight=models.DecimalField(max_digits=6, decimal_places=2, default="1.25"),
        missing=models.IntegerField(null=True),
        counted=models.IntegerField(db_default=7),
        reference=models.UUIDField(default=uuid4, unique=True),
        extra=models.JSONField(default=lambda: {"100%": ["{}"]}),
        tags=ArrayField(models.CharField(max_length=9), default=lambda: ["a,b", "c"]),
        seen=models.DateTimeField(auto_now_add=True),
        stamp=Stamp(max_length=60),
    ):
        answers = crowd(sell, _requests(item, 60), 20)
        written = rows(Reservation)
    assert kinds(answers) == {"Granted": 40, "SoldOut": 20}
    assert len(written) == 40
    for row in written:
        assert row["note"] == "50% {off}, 'now'"
        assert (row["empty"], row["gift"], row["weight"]) == ("", True, pytest.approx(1.25))
        assert (row["missing"], row["counted"]) == (None, 7)
        assert (row["extra"], row["tags"]) == ({"100%": ["{}"]}, ["a,b", "c"])
        assert before <= row["seen"] <= timezone.now()
        assert row["stamp"].startswith("stamped Reservation ")
        assert isinstance(row["reference"], UUID)
    assert len({row["stamp"] for row in written}) == 40
    assert len({row["reference"] for row in written}) == 40
    assert book(item).held == 40


def test_rows_with_own_defaults_stay_in_the_order_of_arrival(stock):
    item = stock(100)
    numbers = iter(range(1000))
    with more(number=models.IntegerField(default=lambda: next(numbers))):
        requests = _requests(item, 100)
        tickets = [PurchaseTicket(each) for each in requests]
        batch.sell(tickets, open_nothing, None)
        found = {row["key"]: row["number"] for row in rows(Reservation)}
    assert kinds([ticket.answer for ticket in tickets]) == {"Granted": 100}
    numbered = [found[each.key] for each in requests]
    first = numbered[0]  # Django made some when the column was added
    assert numbered == list(range(first, first + 100))


def test_a_default_that_is_too_long_is_refused_and_not_cut(stock):
    item = stock(1)
    field: Any = models.CharField(max_length=3, default="")
    with more(short=field):
        _change_default(field, "long")
        with pytest.raises(DataError):
            sell(new_purchase(item))
    assert book(item).available == 1


def test_a_field_without_any_value_is_named(stock):
    item = stock(1)
    field: Any = models.IntegerField(default=1)
    with more(number=field):
        _change_default(field, models.NOT_PROVIDED)
        assert without_value(Reservation, batch.RESERVATION) == ["number"]
        with pytest.raises(ImproperlyConfigured, match="no value for number"):
            sell(new_purchase(item))


@isolate_apps("inventory")
def test_a_model_with_a_parents_table_is_refused():
    class Parent(models.Model):
        class Meta:
            app_label = "inventory"

    class Child(Parent):
        class Meta:
            app_label = "inventory"

    with pytest.raises(ImproperlyConfigured, match="parent"):
        Insert(Child, {}, source="request").columns()


def test_a_changed_item_is_no_obstacle(stock):
    item = stock(1)
    with more_fields(Item, note=models.CharField(max_length=9, default="x")):
        assert isinstance(sell(new_purchase(item)), Granted)


def test_what_only_django_would_fill_in_is_found():
    assert made_by_django(OutboxMessage, ("topic", "payload")) == []
    assert made_by_django(OutboxMessage, ("topic",)) == ["payload"]


def test_reserving_inside_a_transaction_is_refused(stock):
    """The caller would answer before the commit."""
    item = stock(1)
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        sell(new_purchase(item))
    assert book(item).available == 1


def _change_default(field: Any, default: object) -> None:
    field.default = default
    field.__dict__.pop("_get_default", None)  # where Django remembers it


def _requests(item: int, count: int):
    return [new_purchase(item) for _ in range(count)]
