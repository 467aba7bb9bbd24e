"""Everything that is known about a run, loaded into a temporary SQLite database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import astuple

from loadtest.checker import snapshot as snapshots
from loadtest.checker.verdict import Problem
from loadtest.fault_log import read_faults
from loadtest.files import RunFiles
from loadtest.history import AGAIN, NEVER, HistoryError, Operation, operations

# Rows handed to SQLite at once: more gains nothing, and fewer must fit into memory.
_BATCH = 5_000
# Page cache in KiB; the rest of a large history waits in SQLite's temporary file.
_CACHE_KIB = 64 * 1024

_HERE = Path(__file__).parent
FINAL = 0

ALLOWED = {"expiry_us": 15_000_000, "refund_us": 30_000_000}
"""How long after its deadline an order may expire (P16), and until money is back (P14), in µs."""

# The columns of `Shown` for an answer that shows nothing.
_NOTHING_SHOWN = (None, "", "", None, None, None)


# Of each type of row: its table, and how many columns it fills.
_COLUMNS = {
    row_type: (kind, len(row_type.__struct_fields__)) for kind, row_type in snapshots.KINDS.items()
}


# The facts of a problem that say whose call broke it, and those that say which of several it was;
# with the column of each.
_WHOSE = {"call": "call", "key": "key", "cart": "cart", "order": "order_id", "buyer": "buyer"}
_WHICH = {"op": "op", "status": "status", "code": "code", "start": "start", "end": '"end"'}


class Accepted(NamedTuple):
    """A key's first confirmation.

    Attributes:
        row, call, start, end: of the call.
        order: that it was answered with.
        units: of the item that buyers had been promised by then, and could not have given back.
    """

    row: int
    call: str
    start: int
    end: int
    order: str
    units: int


class GivenBack(NamedTuple):
    """An order that was given back, as a whole or in part.

    Attributes:
        order: its id.
        since: when the first request that gives it back began.
        rows: the calls: those that were granted, or have no answer.
        granted: how many of them were granted.
    """

    order: str
    since: int
    rows: tuple[int, ...]
    granted: int


class Evidence:
    """The evidence of one run; properties query it, and nothing changes it after loading."""

    def __init__(
        self,
        *,
        enough: Mapping[str, int],
        allows_errors: bool = False,
    ) -> None:
        """See `judge`."""
        self.enough = dict(enough)
        self.allows_errors = allows_errors
        self.is_final = False
        self.has_ledger = False
        self.has_deliveries = False
        self.has_faults = False
        self.follow_up: tuple[str, ...] = ()
        # An empty name is a private database on disk that goes away with the connection.
        self._database = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.executescript((_HERE / "schema.sql").read_text())

    def __enter__(self) -> Evidence:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._database.close()

    def save(self, path: Path) -> None:
        """Write all tables to a new SQLite file. Raises `OSError` if it cannot be written."""
        try:
            self._database.execute("VACUUM INTO ?", (str(path),))
        except sqlite3.Error as error:
            raise OSError(f"{path}: {error}") from error

    def rows(self, query: str, *parameters: Any) -> Iterator[Any]:
        """The rows of a query, one by one."""
        return self._database.execute(query, parameters)

    def facts(self, query: str) -> Iterator[dict[str, Any]]:
        """The rows of a query by the names of its columns; it may use what the run allows."""
        found = self._database.execute(
            query,
            {"has_faults": self.has_faults, "follow_up": json.dumps(self.follow_up), **ALLOWED},
        )
        names = [column[0] for column in found.description]
        return (dict(zip(names, row, strict=True)) for row in found)

    def value(self, query: str, *parameters: Any) -> Any:
        """The only value of a query of one row."""
        return self._database.execute(query, parameters).fetchone()[0]

    def unexplained(self) -> str:
        """Say that the final snapshot has orders in a status whose meaning it leaves open."""
        if self.value("SELECT count(*) FROM opened WHERE stock IS NULL"):
            return "the snapshot does not tell what the statuses of its orders mean"
        return ""

    def untold(self) -> str:
        """Say what the final snapshot lacks to judge what its orders went through, or nothing."""
        if self.value("SELECT count(*) FROM opened WHERE created = 0 OR pay_before = 0"):
            return "the snapshot does not tell when orders were opened and were to be paid"
        if self.value("SELECT count(*) FROM opened WHERE currency = ''"):
            return "the snapshot does not tell the currency of orders"
        if why := self.unexplained():
            return why
        moved = self.value("SELECT count(*) FROM opened WHERE stock <> 'held'")
        if moved and not self.value("SELECT count(*) FROM event"):
            return f"the snapshot tells no events, though {moved} orders are paid or have ended"
        return ""

    def accepted(self, item: str) -> list[Accepted]:
        """The accepted purchases of an item, by the time of their answers."""
        return [Accepted(*row) for row in self.rows(_ACCEPTED, item)]

    def given_back(self, item: str) -> list[GivenBack]:
        """The orders of an item that were given back, by the time when that began."""
        found = self.rows(_GIVEN_BACK, item)
        return [
            GivenBack(order, since, tuple(map(int, rows.split(","))), granted)
            for order, since, rows, granted in found
        ]

    def gives_back(self, order: str) -> list[int]:
        """The calls that give an order back and were granted, or have no answer."""
        return [row for (row,) in self.rows(f"SELECT rowid {_BACK} AND order_id = ?", order)]

    def beyond(self, facts: Mapping[str, Any]) -> Accepted | None:
        """The first answer that promised more of a problem's item than there are (`units`)."""
        if "units" not in facts:
            return None
        promises = self.accepted(facts["item"])
        return next((promise for promise in promises if promise.units > facts["units"]), None)

    def locate(self, problem: Problem) -> Problem:
        """Say when and by which call a problem came about, as far as its facts tell.

        Where they name no call, the books of a moment show it, or the answer that promised more
        than there was: whichever was first.
        """
        if (found := self._call_of(problem)) is not None:
            return problem._replace(call=found[0], at=found[1])
        number = problem.facts.get("snapshot", FINAL)
        seen = None
        if number != FINAL:
            seen = self.value("SELECT taken_at FROM snapshot WHERE number = ?", number)
        beyond = self.beyond(problem.facts)
        if beyond is not None and (seen is None or beyond.end <= seen):
            return problem._replace(call=beyond.call, at=beyond.end)
        return problem._replace(at=seen)

    def _call_of(self, problem: Problem) -> tuple[str, int] | None:
        """The last call that has most of a problem's facts; one that was granted, if there is."""
        if problem.calls:
            shown = ", ".join(map(str, problem.calls))
            return self._last_call(f"rowid IN ({shown})", order='"end"')
        facts = problem.facts
        whose = {column: facts[name] for name, column in _WHOSE.items() if facts.get(name)}
        which = {column: facts[name] for name, column in _WHICH.items() if facts.get(name)}
        for wanted in (whose | which, *({column: value} for column, value in whose.items())):
            condition = " AND ".join(f"{column} = ?" for column in wanted)
            by = "outcome = 'ok' DESC, \"end\""
            found = self._last_call(condition, *wanted.values(), order=by) if whose else None
            if found is not None:
                return found
        return None

    def _last_call(self, condition: str, *parameters: Any, order: str) -> tuple[str, int] | None:
        query = f"""SELECT call, "end" FROM call WHERE "end" < {NEVER} AND {condition}
            ORDER BY {order} DESC LIMIT 1"""
        return next(self.rows(query, *parameters), None)

    def load(self, files: RunFiles) -> None:
        """Read a run, as far as it has come, and work out what all properties need.

        Raises `HistoryError`, `SnapshotError` or `FaultLogError` for files that cannot be
        understood, `OSError` for those that cannot be read.
        """
        self._load_history(files.histories())
        self.is_final = files.final.exists()
        if self.is_final:
            self.follow_up = self._load_snapshot(files.final, FINAL).follow_up
        for number, path in enumerate(files.during(), start=FINAL + 1):
            self._load_snapshot(path, number)
        self.has_ledger, self.has_deliveries = files.ledger.exists(), files.deliveries.exists()
        for path in filter(Path.exists, (files.ledger, files.deliveries, files.terms)):
            self._load_rows(path, snapshots.read(path)[1], FINAL)
        if files.faults.exists():
            self._load_faults(files.faults)
        self._derive()

    def _load_history(self, paths: Sequence[Path]) -> None:
        linked: list[tuple[str, str, str]] = []
        receipts: list[tuple[Any, ...]] = []
        try:
            calls = (_call(operation, linked, receipts) for operation in operations(*paths))
            self._insert("call", 22, calls)
            self._insert("link", 3, linked)
            self._insert("receipt", 8, receipts)
        except (UnicodeEncodeError, OverflowError) as error:
            raise HistoryError(f"a value that cannot be stored: {error}") from error

    def _load_snapshot(self, path: Path, number: int) -> snapshots.Header:
        """Read a snapshot; number 0 is the final one."""
        header, rows = snapshots.read(path)
        row = (number, header.taken_at, header.clock)
        self._database.execute("INSERT INTO snapshot VALUES (?, ?, ?)", row)
        self._load_rows(path, rows, number)
        return header

    def _load_faults(self, path: Path) -> None:
        """Read the log of injected faults.

        A run that should have left buyers in doubt, and did not, was not hit by its faults.
        """
        for fault in read_faults(path):
            row = (fault.fault, fault.start, fault.end)
            self._database.execute("INSERT INTO fault VALUES (?, ?, ?)", row)
            if fault.leaves_doubt:
                self.enough["info"] = max(1, self.enough.get("info", 0))
        self.has_faults = True

    def _derive(self) -> None:
        """Work out what all properties need; raise `HistoryError` for a key of two buyers."""
        for name in ("derived.sql", "orders.sql"):
            self._database.executescript((_HERE / name).read_text())
        shared = self.rows(
            "SELECT key, buyer, other_buyer FROM purchase WHERE buyer <> other_buyer"
        )
        for key, one, other in shared:
            raise HistoryError(f"key {key} was used by {one} and by {other}")

    def _load_rows(self, path: Path, rows: Iterator[snapshots.Row], number: int) -> None:
        try:
            while batch := list(islice(rows, _BATCH)):
                for row_type, (kind, columns) in _COLUMNS.items():
                    of_kind = [(number, *astuple(row)) for row in batch if type(row) is row_type]
                    self._insert(kind, 1 + columns, of_kind)
        except (UnicodeEncodeError, OverflowError) as error:
            raise snapshots.SnapshotError(f"{path}: {error}") from error

    def _insert(self, table: str, columns: int, rows: Iterable[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * columns)
        self._database.execute("BEGIN")
        self._database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)
        self._database.execute("COMMIT")


def _call(
    operation: Operation,
    linked: list[tuple[str, str, str]],
    receipts: list[tuple[Any, ...]],
) -> tuple[Any, ...]:
    linked += [(operation.op, operation.buyer, order) for order in operation.orders]
    if (receipt := operation.receipt) is not None:
        whose = (operation.call, operation.sale, operation.buyer)
        new = operation.status == 201
        receipts.append((*whose, *astuple(receipt), operation.start, new))
    return (
        operation.call,
        operation.op,
        operation.buyer,
        operation.key,
        operation.sale,
        operation.item,
        operation.quantity,
        operation.start,
        operation.end,
        operation.outcome,
        operation.status,
        operation.code,
        operation.order,
        operation.cart,
        *(astuple(operation.shown) if operation.shown else _NOTHING_SHOWN),
        operation.must,
        operation.client.startswith(AGAIN),
    )


_BACK = "FROM call WHERE op IN ('cancel', 'refund') AND outcome <> 'fail'"
"""What gives units back, from when it begins; a part of an order says how many."""

_PROMISES = """
    promises AS (
        SELECT call.rowid AS number, call.call, call.start, call."end", call.order_id, call.quantity
        FROM call JOIN (
            SELECT min(promise.rowid) AS first FROM purchase
            JOIN call AS promise ON promise.key = purchase.key AND promise.op = 'order'
                AND promise.outcome = 'ok' AND promise."end" = purchase.answered
            GROUP BY purchase.key
        ) ON first = call.rowid
        WHERE call.item = ?)
"""

_ACCEPTED = f"""
    WITH {_PROMISES},
    back AS (
        SELECT order_id, min(start) AS since, max(quantity) AS part {_BACK} GROUP BY order_id),
    changes AS (
        SELECT number, "end" AS moment, quantity AS units FROM promises
        UNION ALL
        SELECT 0, since, -iif(part, min(part, quantity), quantity)
        FROM promises JOIN back USING (order_id)),
    sums AS (SELECT number, sum(units) OVER (ORDER BY moment, number) AS units FROM changes)
    SELECT number, call, start, "end", order_id, units FROM promises JOIN sums USING (number)
    ORDER BY "end", number
"""

_GIVEN_BACK = f"""
    SELECT order_id, min(start) AS since, group_concat(rowid), sum(outcome = 'ok') {_BACK}
        AND order_id IN (SELECT order_id FROM call WHERE op = 'order' AND outcome = 'ok'
                         AND item = ?)
    GROUP BY order_id ORDER BY since
"""

assert NEVER == 9223372036854775807, "derived.sql spells this number out"
