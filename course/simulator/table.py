"""The table of a database, and the connections to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from psycopg.errors import UniqueViolation

from course.simulator.history import Kind
from course.simulator.process import Process, Server, Thread
from course.simulator.schedule import Act, Deviation
from course.simulator.world import Stuck, World

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


class TableServer(Server):
    """A server of the world.  A process's connection and its transaction end with the process."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "postgres")
        self.model = TableModel()
        self._waiting: list[tuple[Transaction, Thread]] = []
        self._connections: list[TableConnection] = []
        world.on_fault.append(self._close_with_the_process)

    def connect(self, *, autocommit: bool = True) -> TableConnection:
        """Return a connection for the running process."""
        connection = TableConnection(self, self.world.me(), autocommit=autocommit)
        self._connections.append(connection)
        return connection

    def preload(self, statement: str, values: tuple[Any, ...]) -> None:
        """Run a statement before the clients start."""
        transaction = Transaction()
        self.model.execute(transaction, statement, values)
        self.model.commit(transaction)

    def run(self, transaction: Transaction, statement: str, values: tuple[Any, ...]) -> Result:
        """Run a statement, waiting for other transactions if necessary."""
        world = self.world
        first = True
        while isinstance(answer := self.model.execute(transaction, statement, values), Busy):
            if first:
                waits = (*filled_in(statement, values), "…")
                self.record(world.me(), waits, kind=Kind.NOTE)
                first = False
            assert world.running is not None
            self._waiting.append((answer.transaction, world.running))
            world.wait(None)
        return answer

    def ended(self, transaction: Transaction) -> None:
        """Wake the waiters for the transaction."""
        for waiting in [pair for pair in self._waiting if pair[0] is transaction]:
            self._waiting.remove(waiting)
            self.world.wake(waiting[1])

    def _close_with_the_process(self, deviation: Deviation) -> None:
        if deviation.act is Act.CRASH:
            for connection in self._connections:
                if connection.process.name == deviation.client:
                    connection.abandon()

    def contents(self) -> list[tuple[Any, Any, int | None]]:
        """Return the rows, also those that only their transaction sees."""
        owners = {id(one.transaction): one.process.name for one in self._connections}
        found: list[tuple[Any, Any, int | None]] = []
        for row in self.model.rows:
            key, *values = row.values.values()
            holder = owners.get(id(row.holder), "") if row.holder is not None else ""
            state = f"(in a transaction of {holder})" if holder else ""
            found.append((f"{row.table}: {key}", (*values, state), None))
        return found


class TableConnection:
    """Has the interface of a psycopg connection: `execute`, `commit`, `rollback`."""

    def __init__(self, server: TableServer, process: Process, *, autocommit: bool) -> None:
        self.process = process
        self._server = server
        self.autocommit = autocommit
        self.transaction = Transaction()

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Result:
        """Run a statement; `UniqueViolation` as psycopg raises it."""
        server = self._server
        words = filled_in(statement, values)
        self._step(words)
        try:
            result = server.run(self.transaction, statement, values)
        except Duplicate as problem:
            self._end("rollback")
            server.record(self.process, words, "UniqueViolation")
            raise UniqueViolation(str(problem)) from problem
        if self.autocommit:
            self._end("commit")
        many = "" if result.rowcount == 1 else "s"
        server.record(self.process, words, f"{result.rowcount} row{many}")
        return result

    def commit(self) -> None:
        """End the transaction."""
        self._finish("commit")

    def rollback(self) -> None:
        """Undo the transaction."""
        self._finish("rollback")

    def _finish(self, how: str) -> None:
        words = (how.upper(),)
        self._step(words)
        self._server.record(self.process, words, "done")
        self._end(how)

    def abandon(self) -> None:
        """Break the connection: the server rolls back."""
        self._end("rollback")

    def _step(self, about: tuple[Any, ...]) -> None:
        effect = self._server.world.step(about)
        if effect is not None:
            raise Stuck(f"the simulated database cannot {effect}")

    def _end(self, how: str) -> None:
        transaction, self.transaction = self.transaction, Transaction()
        getattr(self._server.model, how)(transaction)
        self._server.ended(transaction)


def filled_in(statement: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the statement with its values filled in, for display."""
    first, *rest = statement.split("%s")
    words: list[Any] = [first.strip()]
    for value, text in zip(values, rest, strict=True):
        quoted = f"'{value}'" if isinstance(value, str) else value
        words += [quoted, text.strip()] if text else [quoted]
    return tuple(words)
