"""What a shop must show to be judged: its tables, read in one transaction, as JSON lines.

The first line is the header, then one line a row in any order, and the last line says how many
rows there were, so that a dump that was cut short is never taken for a whole one:

    {"kind":"snapshot","taken_at":812,"follow_up":["confirmation"],"clock":0,"version":1}
    {"kind":"item","id":"7","total":100,"available":0,"held":88,"confirmed":12,"ledger_sum":0,
     "fence":1700000000000123}   (on one line)
    …
    {"kind":"end","rows":412}

A snapshot holds the sales that are judged and nothing else: orders of other sales would be orders
that nobody sent. Snapshots during a run need no more than the items. A provider's ledger, received
mails and the sales' terms have the same form.

Ids are text, amounts are in minor units of a currency, and times are microseconds since 1970 by the
shop's database. What a field does not know it leaves at its default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, Union

import msgspec
from msgspec import Meta, Struct

from loadtest import json_lines
from loadtest.json_lines import Whole

HELD, CONFIRMED, RELEASED = "held", "confirmed", "released"

State = Annotated[str, Meta(pattern=f"^({HELD}|{CONFIRMED}|{RELEASED})$")]
Op = Literal["", "cancel", "refund", "expire", "owe", "give_back", "stuck"]


class Row(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    """A line of a snapshot; its kind is the name of its class."""


class Item(Row, frozen=True):
    """What stock is counted for.

    `held` and `confirmed` are the quantities of its reservations in these states, `ledger_sum` the
    sum of its movements: sums that the database adds up cheaply while a run is on.
    """

    id: str
    total: Whole
    available: Whole
    held: Whole
    confirmed: Whole
    ledger_sum: Whole
    fence: Whole = 0


class Sale(Row, frozen=True):
    """What a sale sells and on which terms, at the moment of the snapshot.

    `limit` is the units that one buyer may have (0: no limit), `price` is of one unit in minor
    units of `currency`, `hold` the time to pay in microseconds. `restock_cancelled` and
    `restock_returned` say whether units of cancelled and of returned orders are sold again; if not,
    they are written off. `action_hold` is by how much the buyer's part of a payment may prolong the
    time to pay at most. `early_starts_at` is when the sale opens for some: for whom `Early` names,
    and for all who give a code, if it has one (`early_code`; an order does not tell); 0: for none.
    Price, window and pause may have changed during the run: see `Terms`.
    """

    id: str
    item: str
    limit: Whole
    price: Whole = 0
    currency: str = ""
    hold: Whole = 0
    restock_cancelled: bool = True
    restock_returned: bool = True
    action_hold: Whole = 0
    early_starts_at: Whole = 0
    early_code: bool = False


class Early(Row, frozen=True):
    """A buyer for whom a sale opens earlier."""

    sale: str
    buyer: str


class Terms(Row, frozen=True):
    """The price, the window and the pause that a sale has from some moment on.

    The change took effect between `asked` and `done`; `done` is 0 if the answer was lost.
    All times are microseconds since 1970 by the database's clock.
    """

    sale: str
    asked: Whole
    done: Whole
    price: Whole
    starts_at: Whole
    ends_at: Whole
    paused: bool = False


class Reservation(Row, frozen=True):
    """Stock held for a buyer; `state` is held, confirmed or released.

    `quantity` is what was granted, `returned` how much of it was given back while the rest is kept;
    a released one has given back all of it. `deadline` is when a held one may be released
    (microseconds since 1970 by the database's clock; 0: not known).
    """

    id: str
    item: str
    buyer: str
    key: str
    quantity: Whole
    state: State
    returned: Whole = 0
    deadline: Whole = 0


class Order(Row, frozen=True):
    """A reservation with a price; `amount` in minor units of `currency`.

    An order of several reservations is several rows with the same id, each with its own amount.
    `to_pay` is the amount of the whole order, less what was cancelled, and `refunded` what was
    given back of it; both are the same in all rows of an order. `created` and `pay_before` are
    microseconds since 1970 by the database's clock; 0: not known.
    """

    id: str
    reservation: str
    sale: str
    item: str
    buyer: str
    key: str
    quantity: Whole
    amount: Whole = 0
    status: str = ""
    created: Whole = 0
    currency: str = ""
    to_pay: Whole = 0
    refunded: Whole = 0
    pay_before: Whole = 0


class Status(Row, frozen=True):
    """A status that orders of this shop can have; the first one by `rank` is that of a new order.

    Orders never go back to a lower `rank`. `stock` is the state of their reservations, and `paid`
    says whether the shop has their money. A refusal that tells a status has the code `order_` and
    its name.
    """

    name: str
    rank: Whole
    stock: State
    paid: bool


class Step(Row, frozen=True):
    """What an event of this name means; the shop names them as it likes.

    `op` is what it does: `cancel` or `refund` (the order, or the units of a part), `expire`, `owe`
    (money has to go back), `give_back` (it went back), `stuck` (it cannot go back by itself).
    `before` and `after` are the statuses that it leads from and to, empty where the status stays.
    `mail` is the name of the mail that its buyer gets.
    """

    event: str
    op: Op = ""
    before: str = ""
    after: str = ""
    mail: str = ""


class Mail(Row, frozen=True):
    """What the mails of a name must say: `subject` in their subject, and until when to pay."""

    name: str
    subject: str
    deadline: bool = False


class Event(Row, frozen=True):
    """What happened to an order after it was opened; `name` is that of a `Step`, or says nothing.

    `amount` (minor units), `quantity` and `sale` (of the line) are those of a part; 0 and empty
    where an event has none. `at` is in microseconds since 1970 by the database's clock, and ids
    grow in the order of an order's events.
    """

    id: Whole
    order: str
    name: str
    at: Whole
    amount: Whole = 0
    quantity: Whole = 0
    sale: str = ""


class Buyer(Row, frozen=True):
    """A buyer of the shop, and the address to which their mails must go."""

    id: str
    email: str


class Delivery(Row, frozen=True):
    """A mail as the mail server took it: once for each time that it was sent.

    `message` is its Message-ID, `name` the occasion and `order` the order as that names them
    (`<confirmation.17@shop>`), empty if it cannot be read. `text` is the plain text.
    """

    message: str
    recipient: str
    subject: str
    text: str
    name: str = ""
    order: str = ""


class Draw(Row, frozen=True):
    """A draw of the sale `id`, and what has been published of it; empty where nothing has.

    `total` and `available` are its item's units. Times are microseconds since 1970 by the
    database's clock; `closed` is 0 until it is closed. Hashes are in hexadecimal digits.
    """

    id: str
    total: Whole
    available: Whole
    starts_at: Whole
    ends_at: Whole
    commitment: str
    source: str = ""
    closed: Whole = 0
    length: Whole = 0
    last_hash: str = ""
    seed: str = ""
    public_value: str = ""


class Entry(Row, frozen=True):
    """A line of a draw's list: `buyer` enters with `mark`, or withdraws the entry `withdraws`."""

    draw: str
    number: Whole
    buyer: str
    hash: str
    at: Whole = 0
    mark: str = ""
    withdraws: Whole = 0


class Win(Row, frozen=True):
    """An entry that has won: its order, the units, since when, and until when (0: still).

    `back` is since when it has a unit again, paid for late (0: it has not).
    """

    draw: str
    number: Whole
    order: str
    quantity: Whole
    at: Whole
    gone: Whole = 0
    back: Whole = 0


class Voucher(Row, frozen=True):
    """A voucher, how many orders may use it, and how many do."""

    id: str
    limit: Whole
    uses: Whole


class Bill(Row, frozen=True):
    """What an order cost its buyer, and what its contents cost, in minor units."""

    order: str
    paid: Whole
    worth: Whole


class Movement(Row, frozen=True):
    """A line of the ledger. Ids grow in the order in which an item's movements were applied.

    `reason` is `restock` for what raises the total (the opening stock too), `write_off` for what
    lowers it, `reclaim` for units that had come back and went to whom they came from, anything else
    for what is sold or comes back. `token` is the fencing token it was written under, 0 without a
    lock.
    """

    id: Whole
    item: str
    delta: Whole
    reason: str
    token: Whole = 0


class Effect(Row, frozen=True):
    """How often a follow-up (`name`, such as the confirmation) took effect for an order."""

    order: str
    name: str
    count: Whole


class Outbox(Row, frozen=True):
    """A message of the outbox, and whether its consumer has marked it done."""

    id: str
    topic: str
    done: bool


class Payment(Row, frozen=True):
    """A line of the payment provider's own ledger: `operation` is capture or refund."""

    id: str
    order: str
    operation: str
    amount: Whole
    currency: str = ""


KINDS: dict[str, type[Row]] = {row.__name__.lower(): row for row in Row.__subclasses__()}


VERSION: Literal[1] = 1


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


_DECODER: msgspec.json.Decoder[Row | Header | _End] = msgspec.json.Decoder(
    Union[*KINDS.values(), Header, _End]
)


def to_json(row: Row | Header | _End) -> str:
    """One line of a snapshot, without its end."""
    return msgspec.json.encode(row).decode()


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
    read_lines = json_lines.read(Path(path), _DECODER, SnapshotError)
    _, header = next(read_lines, (0, None))
    if not isinstance(header, Header):
        raise SnapshotError(f"{path}:1: not the header of a snapshot")
    return header, _rows(path, read_lines)


def _rows(path: str | Path, after: Iterator[tuple[int, Row | Header | _End]]) -> Iterator[Row]:
    number = 0
    for place, line in after:
        if isinstance(line, Row):
            number += 1
            yield line
        elif isinstance(line, Header):
            raise SnapshotError(f"{path}:{place}: a second header")
        elif line.rows == number:
            return
        else:
            raise SnapshotError(f"{path}: {number} rows where {line.rows} were written")
    raise SnapshotError(f"{path}: cut short after {number} rows")
