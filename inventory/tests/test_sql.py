"""SQL over many rows: texts stay with their buyers, and added fields get their defaults."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, connection, models, transaction
from django.test.utils import isolate_apps
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory import sql
from inventory.models import Reservation
from inventory.postgresql.base import plain_cursor
from inventory.selling import batch
from inventory.sql import Insert
from inventory.tests.helpers import (
    book,
    crowd,
    kinds,
    more_fields,
    new_purchase,
    rows,
    sell,
    ticket,
)

READ = """
SELECT name, address FROM ROWS FROM (json_to_recordset(%s) AS (name text, address text))
WITH ORDINALITY ORDER BY ordinality
"""

SPECIAL = [",", '"', "'", "\\", "{", "}", "[", "]", ":", "\n", "\r", "\t", "NULL", "null", "", " "]
SPECIAL += ["\\u0041", "%s", "%(rows)s", "$1", "--", "/*", ");", "E'", "\x01", "\x7f", "\u2028"]
PLANES = [chr(plane << 16 | 0x1F63) for plane in range(17)]
"""A code point of each plane of Unicode, assigned or not."""

pytestmark = pytest.mark.django_db(transaction=True)

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40)
hostile = st.lists(st.sampled_from(SPECIAL + PLANES) | texts, max_size=8).map("".join)


def read(buyers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    with plain_cursor() as cursor:
        parameter = sql.rows([{"name": name, "address": address} for name, address in buyers])
        return cursor.execute(READ, [parameter]).fetchall()


@given(st.lists(st.tuples(hostile, hostile), min_size=1, max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_names_and_addresses_of_a_batch_stay_with_their_buyers(buyers: Any) -> None:
    assert read(buyers) == buyers


@pytest.mark.parametrize("refused", ["\0", "Ann\0", "\ud83d", "x\ude00"], ids=ascii)
def test_sql_refuses_a_batch_with_a_value_postgresql_cannot_hold(refused: str) -> None:
    with pytest.raises(DataError), connection.wrap_database_errors, transaction.atomic():
        read([("Ann", "1 Main St"), ("Bob", refused)])


def test_numbers_keys_and_nothing_arrive_as_they_were_given() -> None:
    key = uuid4()
    row = {"big": 2**62, "less": -2, "tiny": 1e-9, "key": key.hex, "nothing": None, "yes": True}
    kinds = "big bigint, less int, tiny float8, key uuid, nothing int, yes bool"
    with plain_cursor() as cursor:
        cursor.execute(f"SELECT * FROM json_to_recordset(%s) AS row ({kinds})", [sql.rows([row])])
        assert cursor.fetchone() == (2**62, -2, 1e-9, key, None, True)
        cursor.execute("SELECT * FROM json_to_recordset(%s) AS row (a int)", [sql.rows([])])
        assert cursor.fetchall() == []


def test_sql_refuses_numbers_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        sql.rows([{"weight": float("nan")}])


# --- fields that a team adds to a model ---------------------------------------------------------


more = partial(more_fields, Reservation, batch.RESERVE)


class Stamp(models.CharField):  # type: ignore[type-arg]  # Django's has none at run time
    """A field that computes its value on save."""

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        return f"stamped {type(model_instance).__name__} {uuid4().hex}"


def test_insert_writes_the_same_defaults_as_django(stock):
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
        answers = crowd(sell, [new_purchase(item) for _ in range(60)], 20)
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
        tickets = [ticket(new_purchase(item)) for _ in range(100)]
        batch.sell(tickets)
        found = {row["key"]: row["number"] for row in rows(Reservation)}
    numbered = [found[ticket.request.lines[0].key] for ticket in tickets]
    first = numbered[0]  # Django made some when the column was added
    assert numbered == list(range(first, first + 100))


@pytest.mark.parametrize(
    ("field", "default", "error", "message"),
    [
        (models.CharField(max_length=3, default=""), "long", DataError, "too long"),
        (models.IntegerField(default=1), models.NOT_PROVIDED, ImproperlyConfigured, "for added"),
    ],
    ids=["too long", "no value"],
)
def test_insert_refuses_a_default_that_cannot_be_written(
    field: Any, default, error, message, stock
):
    """The database refuses one that is too long, and does not cut it."""
    item = stock(1)
    with more(added=field):
        field.default = default
        field.__dict__.pop("_get_default", None)  # where Django remembers it
        with pytest.raises(error, match=message):
            sell(new_purchase(item))
    assert book(item).available == 1


@isolate_apps("inventory")
def test_insert_refuses_a_model_with_a_parents_table():
    class Parent(models.Model):
        class Meta:
            app_label = "inventory"

    class Child(Parent):
        class Meta:
            app_label = "inventory"

    with pytest.raises(ImproperlyConfigured, match="parent"):
        Insert(Child, {}, source="request").columns()


def test_reserving_inside_a_transaction_is_refused(stock):
    """The caller would answer before the commit."""
    item = stock(1)
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        sell(new_purchase(item))
    assert book(item).available == 1
