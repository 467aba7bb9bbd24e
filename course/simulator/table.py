"""A database in memory: small tables with a primary key, row locks and transactions.

It implements the statements that the lessons use, with PostgreSQL's waits at READ COMMITTED: a
statement that needs a row which an open transaction has inserted, locked or deleted waits for that
transaction's end and runs again.  The caller implements the wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

INSERT = re.compile(
    r"INSERT INTO (?P<table>\w+) \((?P<columns>[\w, ]+)\) VALUES \([%s, ]+\)"
    r"(?P<tolerant> ON CONFLICT DO NOTHING)?$"
)
WHERE = r"FROM (?P<table>\w+) WHERE (?P<column>\w+) (?P<sign>=|<) %s"
SELECT = re.compile(rf"SELECT (?P<columns>[\w, ]+) {WHERE}(?P<locking> FOR UPDATE)?$")
DELETE = re.compile(rf"DELETE {WHERE}$")


class Duplicate(Exception):
    """The primary key exists already."""


@dataclass(slots=True, eq=False)
class Transaction:
    """An open transaction with the rows it touched, to release or restore them."""

    inserted: list[Row] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Row:
    """A row, and the open transaction that has locked it."""

    table: str
    values: dict[str, Any]
    holder: Transaction | None = None
    visible: bool = False  # committed: others can see it


@dataclass(slots=True)
class Busy:
    """The statement must wait until this transaction ends, and then run again."""

    transaction: Transaction


@dataclass(slots=True)
class Result:
    """The result of a statement."""

    rowcount: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)


class TableModel:
    """The tables.  The first column named in an INSERT is the primary key."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def execute(
        self, transaction: Transaction, statement: str, values: tuple[Any, ...]
    ) -> Result | Busy:
        """Run one statement; `Duplicate` for a primary key that exists."""
        for pattern, run in KINDS.items():
            if match := pattern.match(statement):
                return run(self, transaction, values, match)
        raise NotImplementedError(f"the model knows no such statement: {statement}")

    def commit(self, transaction: Transaction) -> None:
        """Make the transaction's changes visible and release its rows."""
        for row in transaction.inserted:
            row.visible = True
        self._end(transaction, transaction.deleted)

    def rollback(self, transaction: Transaction) -> None:
        """Undo the transaction's changes and release its rows."""
        self._end(transaction, transaction.inserted)

    def _end(self, transaction: Transaction, gone: list[Row]) -> None:
        self.rows = [row for row in self.rows if row not in gone]
        for row in self.rows:
            if row.holder is transaction:
                row.holder = None
        transaction.inserted.clear()
        transaction.deleted.clear()

    def _insert(
        self, transaction: Transaction, values: tuple[Any, ...], match: re.Match[str]
    ) -> Result | Busy:
        table, names = match["table"], match["columns"].split(", ")
        for row in self.rows:
            if row.table != table or row.values[names[0]] != values[0]:
                continue
            other = row.holder if row.holder is not transaction else None
            if other is not None and (not row.visible or row in other.deleted):
                return Busy(other)
            if row in transaction.deleted:
                continue
            if match["tolerant"]:
                return Result(0)
            raise Duplicate(f"duplicate key {values[0]!r} in {table}")
        row = Row(table, dict(zip(names, values, strict=True)), transaction)
        self.rows.append(row)
        transaction.inserted.append(row)
        return Result(1)

    def _select(
        self, transaction: Transaction, values: tuple[Any, ...], match: re.Match[str]
    ) -> Result | Busy:
        found = self._matching(transaction, values[0], match)
        if match["locking"] and (busy := self._hold(transaction, found)):
            return busy
        names = match["columns"].split(", ")
        return Result(len(found), [tuple(row.values[name] for name in names) for row in found])

    def _delete(
        self, transaction: Transaction, values: tuple[Any, ...], match: re.Match[str]
    ) -> Result | Busy:
        found = self._matching(transaction, values[0], match)
        if busy := self._hold(transaction, found):
            return busy
        transaction.deleted += found
        return Result(len(found))

    def _matching(self, transaction: Transaction, value: Any, match: re.Match[str]) -> list[Row]:
        column = match["column"]
        return [
            row
            for row in self.rows
            if row.table == match["table"]
            and (row.visible or row.holder is transaction)
            and row not in transaction.deleted
            and (
                row.values[column] == value if match["sign"] == "=" else row.values[column] < value
            )
        ]

    def _hold(self, transaction: Transaction, rows: list[Row]) -> Busy | None:
        for row in rows:
            if row.holder is not None and row.holder is not transaction:
                return Busy(row.holder)
        for row in rows:
            row.holder = transaction
        return None


KINDS: dict[re.Pattern[str], Callable[..., Result | Busy]] = {
    INSERT: TableModel._insert,
    SELECT: TableModel._select,
    DELETE: TableModel._delete,
}
