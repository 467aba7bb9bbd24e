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
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, get_args

VERSION = 1
HELD, CONFIRMED, RELEASED = "held", "confirmed", "released"
STATES = frozenset({HELD, CONFIRMED, RELEASED})


class SnapshotError(ValueError):
    """A snapshot that cannot be read; says the file and the line."""


@dataclass(frozen=True, slots=True)
class Item:
    """What stock is counted for.

    `held` and `confirmed` are the quantities of its reservations in these states, `ledger_sum` the
    sum of its movements: sums that the database adds up cheaply while a run is on.
    """

    kind: ClassVar[str] = "item"
    id: str
    total: int
    available: int
    held: int
    confirmed: int
    ledger_sum: int
    fence: int = 0


@dataclass(frozen=True, slots=True)
class Sale:
    """What a sale sells and on which terms, at the moment of the snapshot.

    `limit` is the units that one buyer may have (0: no limit), `price` is of one unit in minor
    units of `currency`, `hold` the time to pay in microseconds. `restock_cancelled` and
    `restock_returned` say whether units of cancelled and of returned orders are sold again; if not,
    they are written off. Price, window and pause may have changed during the run: see `Terms`.
    """

    kind: ClassVar[str] = "sale"
    id: str
    item: str
    limit: int
    price: int = 0
    currency: str = ""
    hold: int = 0
    restock_cancelled: bool = True
    restock_returned: bool = True


@dataclass(frozen=True, slots=True)
class Terms:
    """The price, the window and the pause that a sale has from some moment on.

    The change took effect between `asked` and `done`; `done` is 0 if nobody knows whether it did.
    All times are microseconds since 1970 by the database's clock.
    """

    kind: ClassVar[str] = "terms"
    sale: str
    asked: int
    done: int
    price: int
    starts_at: int
    ends_at: int
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """Stock held for a buyer; `state` is held, confirmed or released.

    `quantity` is what was granted, `returned` how much of it was given back while the rest is kept;
    a released one has given back all of it. `deadline` is when a held one may be released
    (microseconds since 1970 by the database's clock; 0: not known).
    """

    kind: ClassVar[str] = "reservation"
    id: str
    item: str
    buyer: str
    key: str
    quantity: int
    state: str
    returned: int = 0
    deadline: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """A reservation with a price; `amount` in minor units of `currency`.

    An order of several reservations is several rows with the same id, each with its own amount.
    `to_pay` is the amount of the whole order, less what was cancelled, and `refunded` what was
    given back of it; both are the same in all rows of an order. `created` and `pay_before` are
    microseconds since 1970 by the database's clock; 0: not known.
    """

    kind: ClassVar[str] = "order"
    id: str
    reservation: str
    sale: str
    item: str
    buyer: str
    key: str
    quantity: int
    amount: int = 0
    status: str = ""
    created: int = 0
    currency: str = ""
    to_pay: int = 0
    refunded: int = 0
    pay_before: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to an order after it was opened, such as `paid` or `part_cancelled`.

    `amount` (minor units), `quantity` and `sale` (of the line) are those of a part; 0 and empty
    where an event has none. `at` is in microseconds since 1970 by the database's clock, and ids
    grow in the order of an order's events.
    """

    kind: ClassVar[str] = "event"
    id: int
    order: str
    name: str
    at: int
    amount: int = 0
    quantity: int = 0
    sale: str = ""


@dataclass(frozen=True, slots=True)
class Buyer:
    """A buyer of the shop, and the address to which their mails must go."""

    kind: ClassVar[str] = "buyer"
    id: str
    email: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A mail as the mail server took it: once for each time that it was sent.

    `message` is its Message-ID, `name` the occasion and `order` the order as that names them
    (`<confirmation.17@shop>`), empty if it cannot be read. `text` is the plain text.
    """

    kind: ClassVar[str] = "delivery"
    message: str
    recipient: str
    subject: str
    text: str
    name: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class Movement:
    """A line of the ledger. Ids grow in the order in which an item's movements were applied.

    `reason` is `restock` for what raises the total (the opening stock too), `write_off` for what
    lowers it, `reclaim` for units that had come back and went to whom they came from, anything else
    for what is sold or comes back. `token` is the fencing token it was written under, 0 without a
    lock.
    """

    kind: ClassVar[str] = "movement"
    id: int
    item: str
    delta: int
    reason: str
    token: int = 0


@dataclass(frozen=True, slots=True)
class Effect:
    """How often a follow-up (`name`, such as the confirmation) took effect for an order."""

    kind: ClassVar[str] = "effect"
    order: str
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Outbox:
    """A message of the outbox, and whether its consumer has marked it done."""

    kind: ClassVar[str] = "outbox"
    id: str
    topic: str
    done: bool


@dataclass(frozen=True, slots=True)
class Payment:
    """A line of the payment provider's own ledger: `operation` is capture or refund."""

    kind: ClassVar[str] = "payment"
    id: str
    order: str
    operation: str
    amount: int
    currency: str = ""


Row = (
    Item
    | Sale
    | Terms
    | Reservation
    | Order
    | Event
    | Buyer
    | Movement
    | Effect
    | Outbox
    | Payment
    | Delivery
)
KINDS: dict[str, type[Row]] = {each.kind: each for each in get_args(Row)}
_TYPES: dict[type[Row], dict[str, type]] = {
    each: {f.name: {"str": str, "int": int, "bool": bool}[str(f.type)] for f in fields(each)}
    for each in KINDS.values()
}


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
        for name, wanted in _TYPES[row_type].items():
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
    """The lines of a snapshot, one by one, for whoever sends them somewhere."""
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
