"""Requests and answers of the demo's API."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from lab.strategies import CLASSES, DEFAULT
from shop.api.schemas import Count, Document, Id, Request

MAX_UNITS = 100_000_000
MAX_BUYERS = 20_000
LONGEST = 24 * 60 * 60
"""Seconds until a sale opens, or to pay in it."""
HIGHEST_PRICE = 10**9
"""Of a unit, in minor units: with the most units of a purchase still far from what columns hold."""

Price = Annotated[int, Meta(ge=0, le=HIGHEST_PRICE, description="Of a unit, in minor units.")]
FromNow = Annotated[
    float, Meta(ge=-LONGEST, le=LONGEST, description="Seconds from now; negative: in the past.")
]
Microseconds = Annotated[
    int, Meta(ge=0, description="Microseconds since 1970, by the database's clock.")
]


class BuyersWanted(Request):
    """How many synthetic buyers to make."""

    count: Annotated[int, Meta(ge=1, le=MAX_BUYERS)]


class Tokens(Document):
    """A buyer token for each."""

    tokens: list[str]


class SaleWanted(Request):
    """What a fresh sale is like."""

    stock: Annotated[int, Meta(ge=0, le=MAX_UNITS, description="Units.")] = 100
    limit: Annotated[int, Meta(ge=1, le=MAX_UNITS, description="Units that a buyer may have.")] = 1
    strategy: Annotated[str, Meta(extra_json_schema={"enum": [*CLASSES]})] = DEFAULT
    starts_in: Annotated[float, Meta(ge=0, le=LONGEST, description="Seconds.")] = 0
    hold: Annotated[float, Meta(ge=0.001, le=LONGEST, description="Seconds to pay.")] = 900
    action_hold: Annotated[
        float,
        Meta(ge=0, le=LONGEST, description="Seconds for the buyer's part of a payment."),
    ] = 600
    price: Price = 99_900
    restock_cancelled: Annotated[
        bool, Meta(description="Units of cancelled orders are sold again.")
    ] = True
    restock_returned: Annotated[
        bool, Meta(description="Units of returned orders are sold again.")
    ] = True
    draw: Annotated[
        float, Meta(ge=0, le=LONGEST, description="Seconds to enter a draw; 0: it is none.")
    ] = 0


class SaleMade(Document):
    """The ids of a fresh sale and of its item."""

    sale: Id
    item: Id


class TermsWanted(Request):
    """How a sale is changed; what is left out stays as it is."""

    price: Price | UnsetType = UNSET
    paused: Annotated[bool, Meta(description="Nothing is sold meanwhile.")] | UnsetType = UNSET
    starts_in: FromNow | UnsetType = UNSET
    ends_in: FromNow | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        """Return what is to be changed, by name."""
        return {name: value for name, value in asdict(self).items() if value is not UNSET}


class Terms(Document):
    """The terms of a sale, in force from a moment between `asked` and `done` on."""

    sale: Id
    asked: Microseconds
    done: Microseconds
    price: Price
    starts_at: Microseconds
    ends_at: Microseconds
    paused: bool


class UnitsAdded(Request):
    """Units to add to a sale's item."""

    units: Annotated[int, Meta(ge=1, le=MAX_UNITS)]


class Level(Document):
    """What is available now."""

    available: int


class Strategy(Document):
    """A way of selling."""

    name: str
    safe: Annotated[bool, Meta(description="Never oversells.")]
    fenced: Annotated[bool, Meta(description="Writes under a fencing token.")]
    summary: str


class Strategies(Document):
    """Every way of selling, the default first."""

    strategies: list[Strategy]


class FurtherSales(Struct):
    """Which other sales a question is about."""

    further_sales: Annotated[
        list[Id],
        Meta(description="Sales from which carts were filled as well; they are included."),
    ] = []


class Figures(Document):
    """What a sale has come to, and how many web processes sell."""

    sale: Id
    item: Id
    strategy: str
    total: Count
    available: int
    held: Count
    confirmed: Count
    ledger_sum: int
    fence: Count
    oversold: Count
    purchases: Count
    pending: Annotated[Count, Meta(description="Orders whose follow-up is open.")]
    processes: Annotated[int, Meta(ge=1, description="Web processes alive.")]
    degraded: Annotated[bool, Meta(description="A process sells without Redis.")]


class Session(Document):
    """A buyer's session on the pages."""

    cookie: Annotated[str, Meta(description="What to send as the header `Cookie`.")]
