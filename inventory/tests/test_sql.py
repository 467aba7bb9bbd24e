"""Rows in one parameter: no text of one buyer lands in the row of another."""

from __future__ import annotations

import random
from typing import Any
from uuid import uuid4

import pytest
from django.db import DataError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory import sql

READ = """
SELECT name, address FROM ROWS FROM (json_to_recordset(%s) AS (name text, address text))
WITH ORDINALITY ORDER BY ordinality
"""

SPECIAL = [",", '"', "'", "\\", "{", "}", "[", "]", ":", "\n", "\r", "\t", "NULL", "null", "", " "]
SPECIAL += ["\\u0041", "%s", "%(rows)s", "$1", "--", "/*", ");", "E'", "\x01", "\x7f", "\u2028"]
PLANES = [chr(plane << 16 | 0x1F63) for plane in range(17)]
"""A code point of each plane of Unicode, assigned or not."""

pytestmark = pytest.mark.django_db

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40)
hostile = st.lists(st.sampled_from(SPECIAL + PLANES) | texts, max_size=8).map("".join)


def read(buyers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    with sql.cursor() as cursor:
        parameter = sql.rows([{"name": name, "address": address} for name, address in buyers])
        return cursor.execute(READ, [parameter]).fetchall()


@given(st.lists(st.tuples(hostile, hostile), min_size=1, max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_names_and_addresses_of_a_batch_stay_with_their_buyers(buyers: Any) -> None:
    assert read(buyers) == buyers


def test_every_plane_and_every_special_character_stays_with_its_buyer() -> None:
    draw = random.Random(32)
    alphabet = SPECIAL + PLANES
    buyers = [
        ("".join(draw.choices(alphabet, k=9)), "".join(draw.choices(alphabet, k=30)))
        for _ in range(20_000)
    ]
    assert read(buyers) == buyers


@pytest.mark.parametrize("refused", ["\0", "Ann\0", "\ud83d", "x\ude00"], ids=ascii)
def test_what_postgresql_cannot_hold_is_refused_with_its_whole_batch(refused: str) -> None:
    with pytest.raises(DataError), connection.wrap_database_errors, transaction.atomic():
        read([("Ann", "1 Main St"), ("Bob", refused)])


def test_numbers_keys_and_nothing_arrive_as_they_were_given() -> None:
    key = uuid4()
    row = {"big": 2**62, "less": -2, "tiny": 1e-9, "key": key.hex, "nothing": None, "yes": True}
    kinds = "big bigint, less int, tiny float8, key uuid, nothing int, yes bool"
    with sql.cursor() as cursor:
        cursor.execute(f"SELECT * FROM json_to_recordset(%s) AS row ({kinds})", [sql.rows([row])])
        assert cursor.fetchone() == (2**62, -2, 1e-9, key, None, True)
        cursor.execute("SELECT * FROM json_to_recordset(%s) AS row (a int)", [sql.rows([])])
        assert cursor.fetchall() == []


def test_what_is_no_number_of_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        sql.rows([{"weight": float("nan")}])
