"""Everything that is known about a run, loaded into a temporary SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from loadtest.checker import snapshot as snapshots
from loadtest.history import AGAIN, NEVER, HistoryError, Operation, operations

# Rows handed to SQLite at once: more gains nothing, and fewer must fit into memory.
_BATCH = 5_000
# Page cache in KiB; the rest of a large history waits in SQLite's temporary file.
_CACHE_KIB = 64 * 1024

_HERE = Path(__file__).parent
FINAL = 0

# The columns of `Shown` for an answer that shows nothing.
_NOTHING_SHOWN = (None, "", "", None, None, None)


# Of each type of row: its table, and how many columns it fills.
_COLUMNS = {
    row_type: (kind, len(row_type.__struct_fields__)) for kind, row_type in snapshots.KINDS.items()
}


class FaultLogError(ValueError):
    """A fault log that cannot be read; says the file and the line."""


class LoggedFault(msgspec.Struct, frozen=True):
    """An injected fault; times in ns of the monotonic clock."""

    fault: str
    start: snapshots.Whole
    end: snapshots.Whole
    did: Any = ""
    error: str = ""
    leaves_doubt: bool = True


_FAULT = msgspec.json.Decoder(LoggedFault)


def read_faults(path: Path) -> Iterator[LoggedFault]:
    """Read `{"fault": name, "start": ns, "end": ns}` lines. Raises `FaultLogError`."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _FAULT.decode(line)
            except (ValueError, RecursionError) as error:
                raise FaultLogError(f"{path}:{number}: {error!r}") from error


class Evidence:
    """The evidence of one run; properties query it, and nothing changes it after loading."""

    def __init__(
        self,
        *,
        enough: Mapping[str, int],
        recovery_seconds: float,
        settled_seconds: float,
        expiry_seconds: float,
        refund_seconds: float,
        allows_errors: bool = False,
    ) -> None:
        """What P13, P12, P16 and P14 ask for; see `judge`."""
        self.enough = dict(enough)
        self.allows_errors = allows_errors
        self.recovery_ns = int(recovery_seconds * 1e9)
        self.settled_ns = int(settled_seconds * 1e9)
        self.expiry_us = int(expiry_seconds * 1e6)
        self.refund_us = int(refund_seconds * 1e6)
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

    def rows(self, query: str, *parameters: Any) -> Iterator[Any]:
        """The rows of a query, one by one."""
        return self._database.execute(query, parameters)

    def value(self, query: str, *parameters: Any) -> Any:
        """The only value of a query of one row."""
        return self._database.execute(query, parameters).fetchone()[0]

    def load_history(self, paths: Sequence[Path]) -> None:
        """Read the files of one run. Raises `HistoryError` if they cannot be understood."""
        linked: list[tuple[str, str, str]] = []
        walked: list[tuple[str, int, bytes]] = []
        try:
            calls = (_call(each, linked, walked) for each in operations(*paths))
            self._insert("call", 21, calls)
            self._insert("link", 3, linked)
            self._insert("walk", 3, walked)
        except (UnicodeEncodeError, OverflowError) as error:
            raise HistoryError(f"a value that cannot be stored: {error}") from error

    def load_snapshot(self, path: Path, number: int) -> None:
        """Read a snapshot; number 0 is the final one. Raises `SnapshotError`."""
        header, rows = snapshots.read(path)
        if number == FINAL:
            self.is_final = True
            self.follow_up = header.follow_up
        row = (number, header.taken_at, header.clock)
        self._database.execute("INSERT INTO snapshot VALUES (?, ?, ?)", row)
        self._load_rows(path, rows, number)

    def load_ledger(self, path: Path) -> None:
        """Read the payment provider's ledger, in the form of a snapshot."""
        _, rows = snapshots.read(path)
        self._load_rows(path, rows, FINAL)
        self.has_ledger = True

    def load_deliveries(self, path: Path) -> None:
        """Read what the mail server took, in the form of a snapshot."""
        _, rows = snapshots.read(path)
        self._load_rows(path, rows, FINAL)
        self.has_deliveries = True

    def load_terms(self, path: Path) -> None:
        """Read how the sales' terms changed, in the form of a snapshot."""
        _, rows = snapshots.read(path)
        self._load_rows(path, rows, FINAL)

    def load_faults(self, path: Path) -> None:
        """Read the log of injected faults. Raises `FaultLogError`.

        A run that should have left buyers in doubt, and did not, was not hit by its faults.
        """
        for each in read_faults(path):
            row = (each.fault, each.start, each.end)
            self._database.execute("INSERT INTO fault VALUES (?, ?, ?)", row)
            if each.leaves_doubt:
                self.enough["info"] = max(1, self.enough.get("info", 0))
        self.has_faults = True

    def derive(self) -> None:
        """Work out what all properties need. Raises `HistoryError` for a key of two buyers."""
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
    walked: list[tuple[str, int, bytes]],
) -> tuple[Any, ...]:
    if operation.walk:
        walked.append((operation.walk, operation.start, msgspec.json.encode(operation)))
    linked += [(operation.op, operation.buyer, order) for order in operation.orders]
    return (
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


assert NEVER == 9223372036854775807, "derived.sql spells this number out"
