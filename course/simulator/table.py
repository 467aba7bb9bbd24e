"""The simulated database: tables whose rows transactions lock, and the connections to it.

It behaves as PostgreSQL does at its usual isolation level, READ COMMITTED: a SELECT sees what is
committed; an UPDATE waits for the transaction that has locked its row, and then looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeVar

from psycopg.errors import (
    InFailedSqlTransaction,
    NotNullViolation,
    OperationalError,
    ProgrammingError,
    UndefinedColumn,
    UndefinedTable,
    UniqueViolation,
)

from course.simulator.history import Kind
from course.simulator.process import Process, Server, Thread
from course.simulator.sql import Count, Statement, evaluate, holds, parse
from course.simulator.world import World

T = TypeVar("T")
Values = dict[str, Any]
Parameters = Sequence[Any]


@dataclass(slots=True, eq=False)
class Row:
    """A row; the first column of its table, or else of its INSERT, is the primary key.

    `values` is what all see (None: not committed), `pending` what the transaction of `holder`, who
    has locked the row, has made of it (None: deleted).
    """

    table: str
    key: Any
    values: Values | None = None
    pending: Values | None = None
    holder: TableConnection | None = None

    def seen_by(self, connection: TableConnection) -> Values | None:
        """Return its values for this connection; None if it sees no such row."""
        return self.pending if self.holder is connection else self.values


@dataclass(slots=True)
class Result:
    """The result of a statement, as a cursor has it."""

    rowcount: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    _read: int = 0

    def __str__(self) -> str:
        count = f"{self.rowcount} row{'' if self.rowcount == 1 else 's'}"
        if len(self.rows) != 1:
            return count
        return f"{count}: {', '.join(map(str, self.rows[0]))}"

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last."""
        rest = self.rows[self._read : self._read + 1]
        self._read += len(rest)
        return rest[0] if rest else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        rest = self.rows[self._read :]
        self._read = len(self.rows)
        return rest

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())


class Busy(Exception):
    """Another transaction has locked a row: the statement waits for its end, and runs again."""

    def __init__(self, holder: TableConnection) -> None:
        super().__init__()
        self.holder = holder


class TableServer(Server):
    """A server of the world.  A process's connections and transactions end with the process.

    `tables`: their columns, the primary key first; without it, it has whatever table is named.
    """

    title = "database"

    def __init__(self, world: World, tables: Mapping[str, tuple[str, ...]] | None = None) -> None:
        super().__init__(world, "postgres")
        self.tables = tables
        self.rows: list[Row] = []
        self.waiting: list[tuple[TableConnection, Thread]] = []
        """Which transaction's end each thread waits for."""

    def connect(self, *, autocommit: bool = True) -> TableConnection:
        """Return a connection for the running process."""
        return TableConnection(self, self.world.me(), autocommit=autocommit)

    def preload(self, table: str, **values: Any) -> None:
        """Insert a row before the clients start."""
        self.rows.append(Row(table, next(iter(values.values())), values))

    def committed(self, table: str) -> dict[Any, Values]:
        """Return the rows of a table that all see, by their primary keys."""
        rows = [row for row in self.rows if row.table == table]
        return {row.key: row.values for row in rows if row.values is not None}

    def run(self, connection: TableConnection, statement: str, values: Parameters) -> Result:
        """Run a statement, waiting for other transactions if necessary."""
        parsed = self._checked(parse(statement), values)
        waits = False
        while True:
            try:
                return STATEMENTS[parsed.verb](self, connection, values, parsed)
            except Busy as busy:
                if not waits:
                    words = (*filled_in(statement, values), "…")
                    self.record(connection.process, words, kind=Kind.NOTE)
                    waits = True
                assert self.world.running is not None
                self.waiting.append((busy.holder, self.world.running))
                self.world.wait(None)

    def _checked(self, statement: Statement, values: Parameters) -> Statement:
        """Return the statement; raise what PostgreSQL raises for a wrong name or number."""
        if statement.parameters != len(values):
            raise ProgrammingError(
                f"the query has {statement.parameters} placeholders "
                f"but {len(values)} parameters were passed"
            )
        if self.tables is not None:
            columns = self.tables.get(statement.table)
            if columns is None:
                raise UndefinedTable(f"there is no table {statement.table}")
            for name, _value in statement.changes:
                if name not in columns:
                    raise UndefinedColumn(f"there is no column {name} in {statement.table}")
        return statement

    def end(self, connection: TableConnection, *, commit: bool) -> str:
        """End a transaction: unlock its rows, and wake those that wait for it."""
        for row in [row for row in self.rows if row.holder is connection]:
            if commit:
                row.values = row.pending
            row.holder = row.pending = None
            if row.values is None:
                self.rows.remove(row)
        for waiting in [pair for pair in self.waiting if pair[0] is connection]:
            self.waiting.remove(waiting)
            self.world.wake(waiting[1])
        return "done"

    def lose(self, process: Process) -> None:
        """End the transactions of a process that has died."""
        for connection in {row.holder for row in self.rows if row.holder is not None}:
            if connection.process is process:
                self.end(connection, commit=False)

    def contents(self) -> list[tuple[Any, Any, int | None]]:
        """Return the rows, also those that only their transaction sees."""
        found: list[tuple[Any, Any, int | None]] = []
        for row in self.rows:
            _, *values = (row.values or row.pending or {}).values()
            state = f"(in a transaction of {row.holder.process.name})" if row.holder else ""
            found.append((f"{row.table}: {row.key}", (*values, state), None))
        return found

    # -- the statements

    def _insert(
        self, connection: TableConnection, values: Parameters, statement: Statement
    ) -> Result:
        named = {name: evaluate(value, {}, values) for name, value in statement.changes}
        table = statement.table
        column = self.tables[table][0] if self.tables else statement.changes[0][0]
        key = named.get(column)
        if key is None:
            raise NotNullViolation(f"{table} needs a value for {column}")
        for row in [row for row in self.rows if (row.table, row.key) == (table, key)]:
            other = row.holder if row.holder is not connection else None
            if other is not None and (row.values is None or row.pending is None):
                raise Busy(other)  # whether the row exists depends on how that transaction ends
            if row.seen_by(connection) is not None:
                if statement.tolerant:
                    return Result(0)
                raise UniqueViolation(f"duplicate key {key!r} in {table}")
        self.rows.append(Row(table, key, None, named, connection))
        return _result(statement, values, [named])

    def _select(
        self, connection: TableConnection, values: Parameters, statement: Statement
    ) -> Result:
        found = self._matching(connection, values, statement)
        if statement.locking:
            self._lock(connection, found)
        return _result(statement, values, [row.seen_by(connection) or {} for row in found])

    def _update(
        self, connection: TableConnection, values: Parameters, statement: Statement
    ) -> Result:
        changed = []
        for row, seen in self._lock(connection, self._matching(connection, values, statement)):
            new = {name: evaluate(value, seen, values) for name, value in statement.changes}
            row.pending = seen | new
            changed.append(row.pending)
        return _result(statement, values, changed)

    def _delete(
        self, connection: TableConnection, values: Parameters, statement: Statement
    ) -> Result:
        locked = self._lock(connection, self._matching(connection, values, statement))
        for row, _ in locked:
            row.pending = None
        return _result(statement, values, [seen for _, seen in locked])

    def _matching(
        self, connection: TableConnection, values: Parameters, statement: Statement
    ) -> list[Row]:
        def fits(row: Row) -> bool:
            seen = row.seen_by(connection)
            if row.table != statement.table or seen is None:
                return False
            return all(holds(condition, seen, values) for condition in statement.conditions)

        return [row for row in self.rows if fits(row)]

    def _lock(self, connection: TableConnection, rows: list[Row]) -> list[tuple[Row, Values]]:
        """Lock the rows, all or none; return them with their values."""
        for row in rows:
            if row.holder not in (None, connection):
                raise Busy(row.holder)
        for row in rows:
            row.pending, row.holder = row.seen_by(connection), connection
        return [(row, row.pending or {}) for row in rows]


def _result(statement: Statement, values: Parameters, rows: list[Values]) -> Result:
    """Return what a statement returns of its rows."""
    if statement.output is None:
        return Result(len(rows), [tuple(row.values()) for row in rows])
    if any(isinstance(value, Count) for value in statement.output):
        return Result(1, [tuple(len(rows) for _ in statement.output)])
    if not statement.output:
        return Result(len(rows))
    read = [tuple(evaluate(value, row, values) for value in statement.output) for row in rows]
    return Result(len(rows), read)


STATEMENTS: dict[str, Callable[[TableServer, TableConnection, Parameters, Statement], Result]] = {
    "INSERT": TableServer._insert,
    "SELECT": TableServer._select,
    "UPDATE": TableServer._update,
    "DELETE": TableServer._delete,
}


class TableConnection:
    """Has the interface of a psycopg connection: `execute`, `commit`, `rollback`, `close`, `with`.

    An error in a transaction spoils it: until it is rolled back, nothing else can be done in it.
    """

    def __init__(self, server: TableServer, process: Process, *, autocommit: bool) -> None:
        self.process = process
        self.autocommit = autocommit
        self._server = server
        self._lost = False
        self._spoilt = False

    def execute(self, statement: str, values: Parameters = ()) -> Result:
        """Run a statement; raise what psycopg raises."""
        if self._spoilt:
            raise InFailedSqlTransaction("the transaction has failed; it must be rolled back")

        def run() -> Result:
            result = self._server.run(self, statement, values)
            if self.autocommit:
                self._server.end(self, commit=True)
            return result

        return self._call(filled_in(statement, values), run)

    def commit(self) -> None:
        """End the transaction: all see what it has written, unless it has failed."""
        self._call(("COMMIT",), partial(self._end, commit=True))

    def rollback(self) -> None:
        """End the transaction: nothing of it stays."""
        self._call(("ROLLBACK",), partial(self._end, commit=False))

    def close(self) -> None:
        """End the connection, and its transaction."""
        if not self._lost:
            self._server.end(self, commit=False)
        self._lost = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._lost or not self._server.world.inside():
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()
        self.close()

    def _end(self, *, commit: bool) -> str:
        spoilt, self._spoilt = self._spoilt, False
        return self._server.end(self, commit=commit and not spoilt)

    def _call(self, words: tuple[Any, ...], run: Callable[[], T]) -> T:
        if self._lost:
            raise OperationalError("the connection is closed")
        try:
            return self._server.call(words, run)
        except UniqueViolation:
            self._server.end(self, commit=False)
            self._spoilt = not self.autocommit
            raise
        except ConnectionError as problem:
            self._lost = True
            self._server.end(self, commit=False)
            raise OperationalError(str(problem)) from None


def filled_in(statement: str, values: Parameters) -> tuple[Any, ...]:
    """Return the statement with its values filled in, for display."""
    first, *rest = " ".join(statement.split()).split("%s")
    words: list[Any] = [first.strip()]
    for value, text in zip(values, rest, strict=False):
        quoted = f"'{value}'" if isinstance(value, str) else value
        words += [quoted, text.strip()] if text else [quoted]
    return tuple(words)
