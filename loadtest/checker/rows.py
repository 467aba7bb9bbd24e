"""The rows of a snapshot, of a provider's ledger, of received mails, and of the sales' terms.

Ids are text, amounts are in minor units of a currency, and times are microseconds since 1970 by the
shop's database. What a field does not know it leaves at its default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, get_args

HELD, CONFIRMED, RELEASED = "held", "confirmed", "released"
STATES = frozenset({HELD, CONFIRMED, RELEASED})


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

    The change took effect between `asked` and `done`; `done` is 0 if the answer was lost.
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
TYPES: dict[type[Row], dict[str, type]] = {
    each: {f.name: {"str": str, "int": int, "bool": bool}[str(f.type)] for f in fields(each)}
    for each in KINDS.values()
}
