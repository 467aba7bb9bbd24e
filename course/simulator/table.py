"""A database in memory: small tables with a primary key, row locks and transactions.

It implements the four statements that the lessons use, with PostgreSQL's waits at READ COMMITTED: a
statement that needs a row which an open transaction has inserted, locked or deleted waits for that
transaction's end and runs again.  The caller implements the wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

INSERT = re.compile(
    r"INSERT INTO (\w+) \(([\w, ]+)\) VALUES \([%s, ]+\)( ON CONFLICT DO NOTHING)?$"
)
SELECT = re.compile(r"SELECT ([\w, ]+) FROM (\w+) WHERE (\w+) (=|<) %s( FOR UPDATE)?$")
DELETE = re.compile(r"DELETE FROM (\w+) WHERE (\w+) (=|<) %s$")


class Duplicate(Exception):
    """The primary key exists already."""


@dataclass(slots=True, eq=False)
class Transaction:
    """An open transaction with the rows it touched, to release or restore them."""

    inserted: list[Row] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)
    locked: list[Row] = field(default_factory=list)


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
    rows: list[tuple[Any, ...]]


class TableModel:
    """The tables.  The first column named in an INSERT is the primary key."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._kinds: list[tuple[re.Pattern[str], Callable[..., Result | Busy]]] = [
            (INSERT, self._insert),
            (SELECT, self._select),
            (DELETE, self._delete),
        ]

    def execute(
        self, transaction: Transaction, statement: str, values: tuple[Any, ...]
    ) -> Result | Busy:
        """Run one statement; `Duplicate` for a primary key that exists."""
        for pattern, run in self._kinds:
            match = pattern.match(statement)
            if match is not None:
                return run(transaction, values, *match.groups())
        raise NotImplementedError(f"the model knows no such statement: {statement}")

    def commit(self, transaction: Transaction) -> None:
        """Make the transaction's changes visible and release its rows."""
        for row in transaction.inserted:
            row.visible = True
        self._drop(transaction.deleted)
        self._free(transaction)

    def rollback(self, transaction: Transaction) -> None:
        """Undo the transaction's changes and release its rows."""
        self._drop(transaction.inserted)
        self._free(transaction)

    def _drop(self, rows: list[Row]) -> None:
        self.rows = [row for row in self.rows if row not in rows]

    def _free(self, transaction: Transaction) -> None:
        for row in self.rows:
            if row.holder is transaction:
                row.holder = None
        transaction.inserted.clear()
        transaction.deleted.clear()
        transaction.locked.clear()

    def _matching(
        self, transaction: Transaction, table: str, column: str, sign: str, value: Any
    ) -> list[Row]:
        return [
            row
            for row in self.rows
            if row.table == table
            and (row.visible or row.holder is transaction)
            and row not in transaction.deleted
            and (row.values[column] == value if sign == "=" else row.values[column] < value)
        ]

    def _insert(
        self,
        transaction: Transaction,
        values: tuple[Any, ...],
        table: str,
        columns: str,
        tolerant: str | None,
    ) -> Result | Busy:
        names = columns.split(", ")
        key = names[0]
        for row in self.rows:
            if row.table != table or row.values[key] != values[0]:
                continue
            mine = row.holder is None or row.holder is transaction
            if not mine and row.holder is not None and not self._only_locked(row):
                return Busy(row.holder)
            if row in transaction.deleted:
                continue
            if tolerant:
                return Result(0, [])
            raise Duplicate(f"duplicate key {values[0]!r} in {table}")
        row = Row(table, dict(zip(names, values, strict=True)), transaction)
        self.rows.append(row)
        transaction.inserted.append(row)
        return Result(1, [])

    def _only_locked(self, row: Row) -> bool:
        """Whether the row counts as a duplicate: locked, but neither new nor deleted."""
        assert row.holder is not None
        return row in row.holder.locked and row not in row.holder.deleted

    def _select(
        self,
        transaction: Transaction,
        values: tuple[Any, ...],
        columns: str,
        table: str,
        column: str,
        sign: str,
        locking: str | None,
    ) -> Result | Busy:
        found = self._matching(transaction, table, column, sign, values[0])
        if locking:
            busy = self._hold(transaction, found)
            if busy is not None:
                return busy
        names = columns.split(", ")
        return Result(len(found), [tuple(row.values[name] for name in names) for row in found])

    def _delete(
        self, transaction: Transaction, values: tuple[Any, ...], table: str, column: str, sign: str
    ) -> Result | Busy:
        found = self._matching(transaction, table, column, sign, values[0])
        busy = self._hold(transaction, found)
        if busy is not None:
            return busy
        transaction.deleted += found
        return Result(len(found), [])

    def _hold(self, transaction: Transaction, rows: list[Row]) -> Busy | None:
        for row in rows:
            if row.holder is not None and row.holder is not transaction:
                return Busy(row.holder)
        for row in rows:
            row.holder = transaction
        transaction.locked += rows
        return None
