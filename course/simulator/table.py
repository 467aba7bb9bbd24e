"""The simulated database: tables whose rows transactions lock, and the connections to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from psycopg.errors import OperationalError, UniqueViolation

from course.simulator.history import Kind
from course.simulator.process import Process, Server, Thread
from course.simulator.world import World

T = TypeVar("T")
Values = dict[str, Any]
Parameters = tuple[Any, ...]
Match = re.Match[str]


@dataclass(slots=True, eq=False)
class Row:
    """A row; the first column named in its INSERT is the primary key.

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

    def __str__(self) -> str:
        return f"{self.rowcount} row{'' if self.rowcount == 1 else 's'}"

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None


class Busy(Exception):
    """Another transaction has locked a row: the statement waits for its end, and runs again."""

    def __init__(self, holder: TableConnection) -> None:
        super().__init__()
        self.holder = holder


class TableServer(Server):
    """A server of the world.  A process's connections and transactions end with the process."""

    title = "database"

    def __init__(self, world: World) -> None:
        super().__init__(world, "postgres")
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
        matches = [(one.fullmatch(statement), run) for one, run in STATEMENTS.items()]
        match, run = next((pair for pair in matches if pair[0]), (None, None))
        if match is None or run is None:
            raise NotImplementedError(f"the database knows no such statement: {statement}")
        waits = False
        while True:
            try:
                return run(self, connection, values, match)
            except Busy as busy:
                if not waits:
                    words = (*filled_in(statement, values), "…")
                    self.record(connection.process, words, kind=Kind.NOTE)
                    waits = True
                assert self.world.running is not None
                self.waiting.append((busy.holder, self.world.running))
                self.world.wait(None)

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

    def _insert(self, connection: TableConnection, values: Parameters, match: Match) -> Result:
        table, key = match["table"], values[0]
        for row in [row for row in self.rows if (row.table, row.key) == (table, key)]:
            other = row.holder if row.holder is not connection else None
            if other is not None and (row.values is None or row.pending is None):
                raise Busy(other)  # whether the row exists depends on how that transaction ends
            if row.seen_by(connection) is not None:
                if match["tolerant"]:
                    return Result(0)
                raise UniqueViolation(f"duplicate key {key!r} in {table}")
        named = dict(zip(match["columns"].split(", "), values, strict=True))
        self.rows.append(Row(table, key, None, named, connection))
        return Result(1)

    def _select(self, connection: TableConnection, values: Parameters, match: Match) -> Result:
        found = self._matching(connection, values[0], match)
        if match["locking"]:
            self._lock(connection, found)
        names = match["columns"].split(", ")
        seen = [row.seen_by(connection) or {} for row in found]
        return Result(len(seen), [tuple(one[name] for name in names) for one in seen])

    def _update(self, connection: TableConnection, values: Parameters, match: Match) -> Result:
        (amount, value, *least), name = values, match["changed"]
        found = [
            row
            for row in self._matching(connection, value, match)
            if not least or (row.seen_by(connection) or {})[name] >= least[0]
        ]
        for row, seen in self._lock(connection, found):
            row.pending = seen | {name: seen[name] - amount}
        return Result(len(found))

    def _delete(self, connection: TableConnection, values: Parameters, match: Match) -> Result:
        locked = self._lock(connection, self._matching(connection, values[0], match))
        for row, _ in locked:
            row.pending = None
        return Result(len(locked))

    def _matching(self, connection: TableConnection, value: Any, match: Match) -> list[Row]:
        def fits(row: Row) -> bool:
            seen = row.seen_by(connection)
            if row.table != match["table"] or seen is None:
                return False
            here = seen[match["column"]]
            return bool(here == value if match["sign"] == "=" else here < value)

        return [row for row in self.rows if fits(row)]

    def _lock(self, connection: TableConnection, rows: list[Row]) -> list[tuple[Row, Values]]:
        """Lock the rows, all or none; return them with their values."""
        for row in rows:
            if row.holder not in (None, connection):
                raise Busy(row.holder)
        for row in rows:
            row.pending, row.holder = row.seen_by(connection), connection
        return [(row, row.pending or {}) for row in rows]


WHERE = r"WHERE (?P<column>\w+) (?P<sign>=|<) %s"
STATEMENTS: dict[re.Pattern[str], Callable[..., Result]] = {
    re.compile(
        r"INSERT INTO (?P<table>\w+) \((?P<columns>[\w, ]+)\) VALUES \([%s, ]+\)"
        r"(?P<tolerant> ON CONFLICT DO NOTHING)?"
    ): TableServer._insert,
    re.compile(
        rf"SELECT (?P<columns>[\w, ]+) FROM (?P<table>\w+) {WHERE}(?P<locking> FOR UPDATE)?"
    ): TableServer._select,
    re.compile(
        rf"UPDATE (?P<table>\w+) SET (?P<changed>\w+) = (?P=changed) - %s {WHERE}"
        r"( AND (?P=changed) >= %s)?"
    ): TableServer._update,
    re.compile(rf"DELETE FROM (?P<table>\w+) {WHERE}"): TableServer._delete,
}


class TableConnection:
    """Has the interface of a psycopg connection: `execute`, `commit`, `rollback`."""

    def __init__(self, server: TableServer, process: Process, *, autocommit: bool) -> None:
        self.process = process
        self.autocommit = autocommit
        self._server = server
        self._lost = False

    def execute(self, statement: str, values: Parameters = ()) -> Result:
        """Run a statement; `UniqueViolation` as psycopg raises it."""

        def run() -> Result:
            result = self._server.run(self, statement, values)
            if self.autocommit:
                self._server.end(self, commit=True)
            return result

        return self._call(filled_in(statement, values), run)

    def commit(self) -> None:
        self._call(("COMMIT",), partial(self._server.end, self, commit=True))

    def rollback(self) -> None:
        self._call(("ROLLBACK",), partial(self._server.end, self, commit=False))

    def _call(self, words: tuple[Any, ...], run: Callable[[], T]) -> T:
        if self._lost:
            raise OperationalError("the connection is closed")
        try:
            return self._server.call(words, run)
        except UniqueViolation:
            self._server.end(self, commit=False)
            raise
        except ConnectionError as problem:
            self._lost = True
            self._server.end(self, commit=False)
            raise OperationalError(str(problem)) from None


def filled_in(statement: str, values: Parameters) -> tuple[Any, ...]:
    """Return the statement with its values filled in, for display."""
    first, *rest = statement.split("%s")
    words: list[Any] = [first.strip()]
    for value, text in zip(values, rest, strict=True):
        quoted = f"'{value}'" if isinstance(value, str) else value
        words += [quoted, text.strip()] if text else [quoted]
    return tuple(words)
