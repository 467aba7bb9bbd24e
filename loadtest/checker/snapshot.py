"""What a shop must show to be judged: its tables, read in one transaction, as JSON lines.

The first line is the header, then one line a row in any order, and the last line says how many
rows there were, so that a dump that was cut short is never taken for a whole one:

    {"kind":"snapshot","taken_at":812,"follow_up":["confirmation"],"clock":0,"version":1}
    {"kind":"item","id":"7","total":100,"available":0,"held":88,"confirmed":12,"ledger_sum":0,
     "fence":1700000000000123}   (on one line)
    …
    {"kind":"end","rows":412}

A snapshot holds the sales that are judged and nothing else: orders of other sales would be orders
that nobody sent. Snapshots during a run need no more than the items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar, Union

import msgspec
from msgspec import Struct

from loadtest.checker.rows import (
    CONFIRMED,
    HELD,
    KINDS,
    RELEASED,
    Bill,
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
    Voucher,
    Whole,
)

# A snapshot's rows are named as its own.
__all__ = [
    "CONFIRMED",
    "HELD",
    "KINDS",
    "RELEASED",
    "VERSION",
    "Bill",
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
    "Voucher",
    "from_json",
    "lines",
    "read",
    "to_json",
    "write",
]

VERSION: Literal[1] = 1

T = TypeVar("T")


class SnapshotError(ValueError):
    """A snapshot that cannot be read; says the file and the line."""


class Header(Struct, frozen=True, tag_field="kind", tag="snapshot"):
    """When the snapshot was taken, and which follow-ups every order must have.

    `taken_at` is the machine's monotonic clock in ns, `clock` the database's at the same moment, in
    microseconds since 1970 (0: not known): the pair translates times of the history.
    """

    taken_at: Whole
    follow_up: tuple[str, ...] = ()
    clock: Whole = 0
    version: Literal[1] = VERSION


class _End(Struct, tag_field="kind", tag="end"):
    rows: int


_HEADER = msgspec.json.Decoder(Header)
_LINE: msgspec.json.Decoder[Row | _End] = msgspec.json.Decoder(Union[*KINDS.values(), _End])


def to_json(row: Row | Header | _End) -> str:
    """One line of a snapshot, without its end."""
    return msgspec.json.encode(row).decode()


def from_json(line: str | bytes) -> Row:
    """Read one row. Raises `SnapshotError` for an unknown kind, a missing field or a wrong type."""
    row = _decoded(_LINE, line)
    if isinstance(row, _End):
        raise SnapshotError("not a row")
    return row


def _decoded(decoder: msgspec.json.Decoder[T], line: str | bytes) -> T:
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not a line of a snapshot: {error!r}") from error


def write(path: str | Path, header: Header, rows: Iterable[Row]) -> None:
    """Write a snapshot; rows may come from a generator, they are not kept."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(lines(header, rows))


def lines(header: Header, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a snapshot, for callers that stream them."""
    yield to_json(header) + "\n"
    number = 0
    for row in rows:
        yield to_json(row) + "\n"
        number += 1
    yield to_json(_End(number)) + "\n"


def read(path: str | Path) -> tuple[Header, Iterator[Row]]:
    """Read a snapshot row by row. Raises `SnapshotError`, at the end too if it was cut short."""
    path = Path(path)
    with path.open("rb") as file:
        try:
            return _decoded(_HEADER, file.readline()), _rows(path)
        except SnapshotError as error:
            raise SnapshotError(f"{path}:1: {error}") from error


def _rows(path: Path) -> Iterator[Row]:
    number = 0
    with path.open("rb") as file:
        next(file)
        for line in file:
            try:
                row = _decoded(_LINE, line)
                if not isinstance(row, _End):
                    number += 1
                    yield row
                elif row.rows == number:
                    return
                else:
                    raise SnapshotError(f"{number} rows where {row.rows} were written")
            except SnapshotError as error:
                raise SnapshotError(f"{path}:{number + 1}: {error}") from error
    raise SnapshotError(f"{path}: cut short after {number} rows")
