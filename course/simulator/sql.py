"""The part of SQL that the simulated database understands.

One table per statement, conditions that are joined by AND, and values that are parameters, numbers,
texts, columns, or a sum of two of these. `parse` returns a statement in parts:

    >>> parse("UPDATE item SET available = available - 1 WHERE id = %s").changes
    (('available', Sum(left=Column(name='available'), sign='-', right=Constant(value=1))),)

Keywords may be written in small letters. Whatever else PostgreSQL knows is refused, so that a
lesson's database behaves like PostgreSQL in all that it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from psycopg.errors import UndefinedColumn

TOKEN = re.compile(r"\s*(?:(%s|<=|>=|<>|!=|[=<>(),*+\-;])|(\d+)|'((?:[^']|'')*)'|([A-Za-z_]\w*))")

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "<>": ne,
    "!=": ne,
}

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")

KNOWN = "SELECT, INSERT, UPDATE and DELETE on one table, with conditions joined by AND"


class Unknown(NotImplementedError):
    """The simulated database does not know such a statement; the message says which part."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A `%s`, numbered from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or a text."""

    value: Any


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum or the difference of two values."""

    left: Value
    sign: str
    right: Value


@dataclass(frozen=True, slots=True)
class Count:
    """`count(*)`, of a SELECT without other columns."""


Value = Parameter | Constant | Column | Sum | Count


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of two values."""

    left: Value
    sign: str
    right: Value


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in parts.

    Attributes:
        verb: one of `VERBS`.
        table: its table.
        conditions: all of them choose a row.
        output: what a SELECT reads, or what RETURNING names; None: all columns.
        changes: columns with their new values, of INSERT and UPDATE.
        locking: whether a SELECT locks its rows.
        tolerant: whether an INSERT does nothing if its key is there.
        parameters: how many `%s` it has.
    """

    verb: str
    table: str
    conditions: tuple[Condition, ...] = ()
    output: tuple[Value, ...] | None = ()
    changes: tuple[tuple[str, Value], ...] = ()
    locking: bool = False
    tolerant: bool = False
    parameters: int = 0


@cache
def parse(text: str) -> Statement:
    """Return a statement in parts.

    Raises:
        Unknown: the simulated database does not know it.
    """
    return _Parser(text).statement()


def evaluate(value: Value, row: Mapping[str, Any], parameters: Sequence[Any]) -> Any:
    """Return a value for a row.

    Raises:
        UndefinedColumn: the row has no such column.
    """
    if isinstance(value, Parameter):
        return parameters[value.number]
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Column):
        if value.name not in row:
            raise UndefinedColumn(f"there is no column {value.name}")
        return row[value.name]
    if isinstance(value, Count):
        return 1  # counted by the database, over the rows
    left = evaluate(value.left, row, parameters)
    right = evaluate(value.right, row, parameters)
    return left + right if value.sign == "+" else left - right


def holds(condition: Condition, row: Mapping[str, Any], parameters: Sequence[Any]) -> bool:
    """Return whether a row meets a condition; with NULL in it, none does."""
    left = evaluate(condition.left, row, parameters)
    right = evaluate(condition.right, row, parameters)
    return None not in (left, right) and COMPARISONS[condition.sign](left, right)


class _Parser:
    """Reads one statement from left to right."""

    def __init__(self, text: str) -> None:
        self._text = " ".join(text.split())
        self._tokens = list(self._split())
        self._at = 0
        self._parameters = 0

    def _split(self) -> list[tuple[str, Any]]:
        """Return the tokens as (kind, value): a sign, a number, a text or a word."""
        found: list[tuple[str, Any]] = []
        place = 0
        while place < len(self._text):
            match = TOKEN.match(self._text, place)
            if match is None:
                raise self._unknown(repr(self._text[place:].strip()[:20]))
            sign, number, text, word = match.groups()
            if sign:
                found.append(("sign", sign))
            elif number:
                found.append(("number", int(number)))
            elif word:
                found.append(("word", word))
            else:
                found.append(("text", text.replace("''", "'")))
            place = match.end()
        return found

    def statement(self) -> Statement:
        """Read the statement to its end."""
        verb = self._word().upper()
        read = {
            "SELECT": self._select,
            "INSERT": self._insert,
            "UPDATE": self._update,
            "DELETE": self._delete,
        }.get(verb)
        if read is None:
            self._at = 0
            raise self._unknown()
        statement = read()
        self._skip(";")
        if self._at < len(self._tokens):
            raise self._unknown()
        return statement

    # -- the four

    def _select(self) -> Statement:
        output = self._output()
        self._expect("FROM")
        table, conditions = self._word(), self._conditions()
        locking = self._skip("FOR")
        if locking:
            self._expect("UPDATE")
        return Statement(
            "SELECT",
            table,
            conditions,
            output,
            locking=locking,
            parameters=self._parameters,
        )

    def _insert(self) -> Statement:
        self._expect("INTO")
        table = self._word()
        columns = self._listed(self._word)
        self._expect("VALUES")
        values = self._listed(self._value)
        if len(columns) != len(values):
            raise self._unknown(f"{len(values)} values for {len(columns)} columns")
        tolerant = self._skip("ON")
        if tolerant:
            self._expect("CONFLICT")
            if self._next("("):
                self._listed(self._word)
            self._expect("DO")
            self._expect("NOTHING")
        return Statement(
            "INSERT",
            table,
            output=self._returning(),
            changes=tuple(zip(columns, values, strict=True)),
            tolerant=tolerant,
            parameters=self._parameters,
        )

    def _update(self) -> Statement:
        table = self._word()
        self._expect("SET")
        changes = [self._change()]
        while self._skip(","):
            changes.append(self._change())
        return Statement(
            "UPDATE",
            table,
            self._conditions(),
            self._returning(),
            tuple(changes),
            parameters=self._parameters,
        )

    def _delete(self) -> Statement:
        self._expect("FROM")
        table = self._word()
        return Statement(
            "DELETE",
            table,
            self._conditions(),
            self._returning(),
            parameters=self._parameters,
        )

    # -- their parts

    def _change(self) -> tuple[str, Value]:
        column = self._word()
        self._expect("=")
        return column, self._value()

    def _conditions(self) -> tuple[Condition, ...]:
        if not self._skip("WHERE"):
            return ()
        conditions = [self._condition()]
        while self._skip("AND"):
            conditions.append(self._condition())
        return tuple(conditions)

    def _condition(self) -> Condition:
        left = self._value()
        sign = next((one for one in COMPARISONS if self._skip(one)), None)
        if sign is None:
            raise self._unknown()
        return Condition(left, sign, self._value())

    def _returning(self) -> tuple[Value, ...] | None:
        return self._output() if self._skip("RETURNING") else ()

    def _output(self) -> tuple[Value, ...] | None:
        if self._skip("*"):
            return None
        values = [self._value()]
        while self._skip(","):
            values.append(self._value())
        return tuple(values)

    def _value(self) -> Value:
        value = self._simple()
        while self._next("+") or self._next("-"):
            _kind, sign = self._take()
            value = Sum(value, sign, self._simple())
        return value

    def _simple(self) -> Value:
        kind, token = self._take()
        if kind in ("number", "text"):
            return Constant(token)
        if token == "%s":
            self._parameters += 1
            return Parameter(self._parameters - 1)
        if kind == "word" and str(token).lower() == "count" and self._skip("("):
            self._expect("*")
            self._expect(")")
            return Count()
        if kind == "word":
            return Column(str(token).lower())
        self._at -= 1
        raise self._unknown()

    def _listed(self, read: Callable[[], Any]) -> list[Any]:
        """Read a list in brackets."""
        self._expect("(")
        found = [read()]
        while self._skip(","):
            found.append(read())
        self._expect(")")
        return found

    # -- its tokens

    def _take(self) -> tuple[str, Any]:
        if self._at >= len(self._tokens):
            raise self._unknown()
        self._at += 1
        return self._tokens[self._at - 1]

    def _next(self, wanted: str) -> bool:
        if self._at >= len(self._tokens):
            return False
        kind, token = self._tokens[self._at]
        return kind in ("sign", "word") and str(token).upper() == wanted

    def _skip(self, wanted: str) -> bool:
        found = self._next(wanted)
        self._at += found
        return found

    def _expect(self, wanted: str) -> None:
        if not self._skip(wanted):
            raise self._unknown()

    def _word(self) -> str:
        kind, token = self._take()
        if kind != "word":
            self._at -= 1
            raise self._unknown()
        return str(token).lower()

    def _unknown(self, place: str = "") -> Unknown:
        """Return the error that names a place: by default, the next token."""
        if not place:
            rest = self._tokens[self._at : self._at + 1]
            place = repr(str(rest[0][1])) if rest else "the end"
        return Unknown(f"this database knows {KNOWN}; it does not understand {place}")
