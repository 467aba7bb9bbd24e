"""What a shop must show to be judged: its tables, read in one transaction, as JSON lines.

The first line is the header, then one line a row in any order, and the last line says how many
rows there were, so that a dump that was cut short is never taken for a whole one:

    {"kind":"snapshot","version":1,"taken_at":812,"follow_up":["confirmation"]}
    {"kind":"item","id":"7","total":100,"available":0,"held":88,"confirmed":12,"ledger_sum":0,
     "fence":1700000000000123}   (on one line)
    …
    {"kind":"end","rows":412}

A snapshot holds the sales that are judged and nothing else: orders of other sales would be orders
that nobody sent. Snapshots during a run need no more than the items.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadtest.checker.rows import (
    CONFIRMED,
    HELD,
    KINDS,
    RELEASED,
    STATES,
    TYPES,
    Buyer,
    Delivery,
    Effect,
    Event,
    Item,
    Movement,
    Order,
    Outbox,
    Payment,
    Reservation,
    Row,
    Sale,
    Terms,
)

# A snapshot's rows are named as its own.
__all__ = [
    "CONFIRMED",
    "HELD",
    "KINDS",
    "RELEASED",
    "STATES",
    "VERSION",
    "Buyer",
    "Delivery",
    "Effect",
    "Event",
    "Header",
    "Item",
    "Movement",
    "Order",
    "Outbox",
    "Payment",
    "Reservation",
    "Row",
    "Sale",
    "SnapshotError",
    "Terms",
    "from_json",
    "lines",
    "read",
    "to_json",
    "write",
]

VERSION = 1


class SnapshotError(ValueError):
    """A snapshot that cannot be read; says the file and the line."""


@dataclass(frozen=True, slots=True)
class Header:
    """When the snapshot was taken, and which follow-ups every order must have.

    `taken_at` is the machine's monotonic clock in ns, `clock` the database's at the same moment, in
    microseconds since 1970 (0: not known): the pair translates times of the history.
    """

    taken_at: int
    follow_up: tuple[str, ...] = ()
    clock: int = 0


def to_json(row: Row) -> str:
    """One line of a snapshot, without its end."""
    return json.dumps({"kind": row.kind, **asdict(row)}, separators=(",", ":"))


def from_json(line: str | bytes) -> Row:
    """Read one row. Raises `SnapshotError` for an unknown kind, a missing field or a wrong type."""
    return _row(_values(line))


def _values(line: str | bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {error!r}") from error
    if not isinstance(values, dict):
        raise SnapshotError("not an object")
    return values


def _row(values: dict[str, Any]) -> Row:
    try:
        row_type = KINDS[values.pop("kind")]
        for name, wanted in TYPES[row_type].items():
            if name in values and type(values[name]) is not wanted:
                raise TypeError(f"{name} is not {wanted.__name__}")
        row = row_type(**values)
    except (KeyError, TypeError) as error:
        raise SnapshotError(f"not a row: {error!r}") from error
    if isinstance(row, Reservation) and row.state not in STATES:
        raise SnapshotError(f"reservation {row.id} is in no known state: {row.state!r}")
    return row


def write(path: str | Path, header: Header, rows: Iterable[Row]) -> None:
    """Write a snapshot; rows may come from a generator, they are not kept."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(lines(header, rows))


def lines(header: Header, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a snapshot, for callers that stream them."""
    start: dict[str, Any] = {"kind": "snapshot", "version": VERSION, **asdict(header)}
    yield json.dumps(start, separators=(",", ":")) + "\n"
    number = 0
    for row in rows:
        yield to_json(row) + "\n"
        number += 1
    yield f'{{"kind":"end","rows":{number}}}\n'


def read(path: str | Path) -> tuple[Header, Iterator[Row]]:
    """Read a snapshot row by row. Raises `SnapshotError`, at the end too if it was cut short."""
    header = _header(Path(path))
    return header, _rows(Path(path))


def _header(path: Path) -> Header:
    with path.open("rb") as file:
        first = file.readline()
    try:
        values = _values(first)
        if values["kind"] != "snapshot" or values["version"] != VERSION:
            raise SnapshotError(f"not a snapshot of version {VERSION}")
        taken_at, follow_up = values["taken_at"], values["follow_up"]
        clock = values.get("clock", 0)
        if type(taken_at) is not int or type(clock) is not int:
            raise TypeError("a time is not a whole number")
        if not all(isinstance(each, str) for each in follow_up):
            raise TypeError("a follow-up is not text")
    except (SnapshotError, KeyError, TypeError) as error:
        raise SnapshotError(f"{path}:1: {error}") from error
    return Header(taken_at, tuple(follow_up), clock)


def _rows(path: Path) -> Iterator[Row]:
    number = 0
    with path.open("rb") as file:
        next(file)
        for line in file:
            try:
                values = _values(line)
                if values.get("kind") == "end":
                    if values.get("rows") != number:
                        raise SnapshotError(
                            f"{number} rows where {values.get('rows')} were written"
                        )
                    return
                number += 1
                yield _row(values)
            except SnapshotError as error:
                raise SnapshotError(f"{path}:{number + 1}: {error}") from error
    raise SnapshotError(f"{path}: cut short after {number} rows")
