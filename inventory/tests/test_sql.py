"""Arrays in one parameter: every value arrives as it was given."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from inventory import sql

ODD = ["a,b", "", "NULL", "null", "{}", '"', "\\", 'a"b\\c', " ", "a\nb", "é", "1 Main St, 2"]


def read(literal: str, kind: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT %s::{kind}[]", [literal])
        return cursor.fetchone()[0]


@pytest.mark.django_db
@pytest.mark.parametrize("text", ODD)
def test_any_text_arrives_as_it_was_given(text: str) -> None:
    assert read(sql.array([text]), "text") == [text]
    assert read(sql.array(["ab", text, "12"]), "text") == ["ab", text, "12"]


@pytest.mark.django_db
def test_numbers_keys_and_nothing_arrive_as_they_were_given() -> None:
    key = uuid4()
    assert read(sql.array([1, -2, 2**62]), "bigint") == [1, -2, 2**62]
    assert read(sql.array([0.5, 1e16, 1e-9]), "float8") == [0.5, 1e16, 1e-9]
    assert read(sql.array([key.hex]), "uuid") == [key]
    assert read(sql.array([1, None]), "int") == [1, None]
    assert read(sql.array([]), "int") == []


@given(st.lists(st.text(st.characters(blacklist_characters="\0", codec="utf-8")), min_size=1))
def test_a_text_never_becomes_two(texts: list[str]) -> None:
    """As PostgreSQL reads it: outside of quotes only plain elements and commas."""
    literal = sql.array(texts)
    assert _read_back(literal) == texts


def _read_back(literal: str) -> list[str]:
    elements, element, quoted, escaped = [], "", False, False
    for character in literal[1:-1] + ",":
        if escaped:
            element, escaped = element + character, False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            elements.append(element)
            element = ""
        else:
            element += character
    return elements


def test_rows_become_an_array_per_column() -> None:
    assert sql.arrays([(1, "a"), (2, "x,y")]) == ["{1,2}", '{"a","x,y"}']
