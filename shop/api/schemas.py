"""What the API's requests and answers contain.

The decoders, the encoder and the OpenAPI document are all made from these classes.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from inventory.outcomes import MAX_LINES
from shop.catalogue.models import Sale as SaleModel
from shop.checkout import MAX_UNITS
from shop.money import Money
from shop.orders import details
from shop.orders.models import Status
from shop.refusals import PROBLEMS

Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Units = Annotated[int, Meta(ge=1, le=MAX_UNITS, description="Units.")]
Count = Annotated[int, Meta(ge=0)]
Moment = Annotated[datetime, Meta(tz=True)]

Expected = Annotated[
    int,
    Meta(
        ge=0,
        le=2**63 - 1,
        description="What the whole order may cost, in the currency's minor unit. A higher price "
        "is refused with `price_changed`; a lower one is sold at the lower. Left out: any price.",
    ),
]

Text = Annotated[str, Meta(min_length=1, max_length=1000, pattern=details.NO_NUL)]

Key = Annotated[
    UUID,
    Meta(
        description="The purchase's or the part's own UUID. Send the same one when you retry.",
        examples=["0b7e4f1c-3a57-4d0e-9f0a-0b9a6f1f2c3d"],
        extra_json_schema={
            "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}"
            "-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
        },
    ),
]


class Request(Struct, forbid_unknown_fields=True):
    """A request's body. A misspelt member is refused, not ignored.

    Attributes:
        codes: the problem code of each member that is missing or wrong; by default
            `invalid_request`.
        also: what else the JSON Schema says.
    """

    codes: ClassVar[dict[str, str]] = {}
    also: ClassVar[dict[str, Any]] = {}


class Document(Struct, forbid_unknown_fields=True):
    """The body of an answer."""


if TYPE_CHECKING:

    class Details(Struct, kw_only=True):
        """What a buyer states with an order."""
else:
    Details = defstruct("Details", details.members(details.fields()), kw_only=True)


TaxRate = Annotated[float, Meta(ge=0, description="Percent of the price without tax.")]
Tax = Annotated[Money, Meta(description="Included in the amount.")]

Code = Annotated[
    str,
    Meta(
        max_length=100,
        pattern="^[^\\u0000]*$",
        description="The buyer's code for buying before the sale opens for all.",
    ),
]


class Purchase(Request, Details):
    """What a buyer wants of a sale."""

    codes: ClassVar[dict[str, str]] = {"quantity": "invalid_quantity"}

    quantity: Units
    expected_amount: Expected | UnsetType = UNSET
    early_code: Code | UnsetType = UNSET


class CartLine(Request):
    """What a buyer wants of one of several sales."""

    sale: Id
    quantity: Units


class Cart(Request, Details):
    """What a buyer wants of several sales."""

    codes: ClassVar[dict[str, str]] = {
        "lines": "invalid_cart",
        "sale": "invalid_cart",
        "quantity": "invalid_quantity",
    }

    lines: Annotated[
        list[CartLine],
        Meta(min_length=1, max_length=MAX_LINES, description="Each of another sale."),
    ]
    expected_amount: Expected | UnsetType = UNSET
    early_code: Code | UnsetType = UNSET


class Part(Request):
    """A part of an order, or all of it.

    An empty object, like a call without a body, means all of it: older clients rely on that.
    """

    codes: ClassVar[dict[str, str]] = {"quantity": "invalid_quantity"}
    also: ClassVar[dict[str, Any]] = {
        "dependentRequired": {"sale": ["quantity"]},
        "not": {"required": ["all", "quantity"]},
    }

    quantity: Units | UnsetType = UNSET
    sale: (
        Annotated[Id, Meta(description="Of which line; needed where the order has several.")]
        | UnsetType
    ) = UNSET

    all: (
        Annotated[bool, Meta(description="All of the order.", extra_json_schema={"const": True})]
        | UnsetType
    ) = UNSET


class Credentials(Request):
    """A buyer's name and password."""

    username: Text
    password: Text


class Received(Document):
    """The event's effect is committed, now or earlier."""

    received: Literal[True] = True


class Sale(Document):
    """A product at a price, in a window, with a limit per buyer."""

    id: Id
    item: Annotated[Id, Meta(description="What the stock is counted for.")]
    kind: Annotated[
        str,
        Meta(
            description="Who gets the units: the first who come, or the winners of a draw.",
            extra_json_schema={"enum": [*SaleModel.Kind.values]},
        ),
    ]
    price: Annotated[Money, Meta(description="Of one unit.")]
    limit: Annotated[int, Meta(ge=1, description="Units that a buyer may have.")]
    starts_at: Moment
    early_starts_at: Annotated[
        Moment | None,
        Meta(description="When it opens for those who may buy earlier; null if nobody may."),
    ]
    ends_at: Moment
    status: Annotated[
        str,
        Meta(
            description="`early`: open only for those who may buy earlier.",
            extra_json_schema={
                "enum": ["not_started", "early", "open", "sold_out", "paused", "ended"]
            },
        ),
    ]
    available: Annotated[Count, Meta(description="Units left a moment ago.")]
    may_come_back: Annotated[
        bool,
        Meta(description="Sold out, but unpaid orders hold units that may go back on sale."),
    ]
    server_time: Annotated[
        Moment,
        Meta(
            description="When this was answered. Count down by the latest that you have seen, and "
            "not by your own clock: a cache may answer with one of a second ago."
        ),
    ]


class OrderLine(Document):
    """Units of one sale in an order."""

    sale: Id
    quantity: Annotated[int, Meta(ge=1, description="As ordered.")]
    returned: Annotated[Count, Meta(description="Of these, given back.")]
    amount: Annotated[Money, Meta(description="As ordered.")]
    tax_rate: TaxRate
    tax: Tax


class Fee(Document):
    """A line of money that is not units, such as shipping."""

    name: Annotated[str, Meta(description="As the shop's own code says it; not translated.")]
    amount: Money
    tax_rate: TaxRate
    tax: Tax


class Action(Document):
    """What the buyer has to do, so that a payment can go on."""

    kind: Annotated[
        Literal["redirect", "qr", "script"],
        Meta(
            description="`redirect`: open `url`, from which the buyer comes back to the order's "
            "page; `qr`: show `data` as a QR code; `script`: show the form of the provider's "
            "script for `client_secret`."
        ),
    ]
    expires: Annotated[Moment, Meta(description="Until when the order is held for it.")]
    url: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    client_secret: str | UnsetType = UNSET


class Order(Document, Details):
    """A purchase, what it costs, and where it stands."""

    id: Id
    sale: Annotated[Id | None, Meta(description="null if the order has several lines.")]
    quantity: Annotated[int, Meta(ge=1, description="Of all lines together.")]
    amount: Annotated[Money, Meta(description="To be paid, or paid; less what was cancelled.")]
    status: Annotated[str, Meta(extra_json_schema={"enum": [*Status.values]})]
    pay_before: Moment
    created: Moment
    refunded: Annotated[Money, Meta(description="Of what was paid, given back.")]
    payment: Annotated[
        Literal["none", "action", "processing", "failed"],
        Meta(
            description="How far a payment has come, while the order awaits it: the buyer has "
            "something to do, the provider is processing it, or the last attempt failed."
        ),
    ]
    lines: Annotated[list[OrderLine], Meta(min_length=1)]
    fees: Annotated[list[Fee], Meta(description="In the amount, next to the lines.")]
    action: (
        Annotated[Action, Meta(description="What the buyer has to do, where `payment` says so.")]
        | UnsetType
    ) = UNSET


class Token(Document):
    """A buyer token."""

    token: str
    expires_in: Annotated[int, Meta(ge=1, description="Seconds.")]


class Problem(Document, omit_defaults=True):
    """A refusal (RFC 9457). Branch on `code`; the texts may change."""

    type: Annotated[str, Meta(extra_json_schema={"format": "uri-reference"})]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    code: Annotated[str, Meta(extra_json_schema={"enum": [*PROBLEMS]})]
    detail: str | UnsetType = UNSET
    available: Annotated[Count, Meta(description="Units left.")] | UnsetType = UNSET
    left: Annotated[Count, Meta(description="Units that the buyer may still have.")] | UnsetType = (
        UNSET
    )
    amount: (
        Annotated[
            Count,
            Meta(
                description="What the whole order would cost now, in the minor unit: the "
                "`expected_amount` that accepts it."
            ),
        ]
        | UnsetType
    ) = UNSET
    sale: Annotated[Id, Meta(description="Which line it is about.")] | UnsetType = UNSET
    may_come_back: (
        Annotated[bool, Meta(description="Unpaid orders' units may go back on sale.")] | UnsetType
    ) = UNSET
