"""The interface to a judged shop: what a shop must offer.

An adapter is called with the shop's address (`Adapter("http://127.0.0.1:8000")`). It says which
requests a buyer sends and what the answers mean; it never sends what the buyers race with. So the
caller may hold back the last byte of every request and release them all together, as `rush/` does.
`shops/` holds one adapter per shop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Protocol, runtime_checkable

from msgspec import Meta


@dataclass(frozen=True)
class Request:
    """One HTTP request; `path` may hold a query, and has other characters than ASCII's encoded.

    The sender adds `Content-Length`, a `Host` unless there is one, and `Connection: close` unless
    its connection stays open for the next request.
    """

    method: str
    path: Annotated[str, Meta(pattern="^/[!-~]*$")]
    headers: Mapping[str, Annotated[str, Meta(pattern="^[\t -ÿ]*$")]] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """The shop's answer, read to its end. Header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Sold:
    """The shop said: this is your order. `order` is the id that its books use, too."""

    order: str
    units: int = 1


SOLD_OUT = "sold_out"
"""The reason of a refusal that says: no unit is left, and nothing else. An adapter that can tell
this from other refusals is judged by whether it was true (P7, P8). Further reasons that mean
something: `limit_reached`, `price_changed`, `not_started`, `paused`, `ended`, `not_found`, `busy`,
`rate_limited`, `payment_declined`, `idempotency_key_reused`, and `order_` with a status of the
order."""


@dataclass(frozen=True)
class Refused:
    """The shop said no, in its own words or with `SOLD_OUT`, and kept nothing."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """Neither: an error, a time-out, an answer that promises nothing."""

    detail: str


Outcome = Sold | Refused | Unknown


@dataclass(frozen=True)
class Accepted:
    """The shop took the request, and will say later what came of it; see `Later`.

    `ticket` is what `follow` needs to ask: an address, a number in a queue.
    """

    ticket: str


class Level(StrEnum):
    """What a shop can be judged on; an adapter declares the levels that it offers."""

    STOCK = "stock"
    REPEATS = "repeats"  # the same last step again gives the same order, not a second one
    PAY = "pay"
    CANCEL = "cancel"
    REFUND = "refund"
    EXPIRY = "expiry"
    CARTS = "carts"
    VOUCHERS = "vouchers"
    MAILS = "mails"
    LIMITS = "limits"
    WINDOWS = "windows"


@dataclass(frozen=True)
class Books:
    """What the shop itself says at rest: `orders` maps each order that holds stock to its units.

    `available` is what the shop would still sell. It is None where the shop keeps no such figure or
    where carts hold units that are in no order: it cannot disagree with the orders then.
    """

    total: int
    available: int | None
    orders: Mapping[str, Annotated[int, Meta(ge=0)]]


class Declined(Exception):
    """Raised where the shop turns a buyer away before the last step, by `prepare` or `added`.

    It says why: `SOLD_OUT` where the shop reserves units at the cart or at the checkout, and says
    that no unit is left.
    """


@dataclass(frozen=True)
class Sizes:
    """How large a rush on this shop should be, unless the command says otherwise."""

    stock: int = 20
    buyers: int = 120
    rounds: int = 5


@dataclass(frozen=True)
class Hold:
    """How long units are held for a buyer who does not go on.

    Attributes:
        seconds: until they come back.
        orders: whether they are held by an order that is not paid, by which they count as sold
            until then; otherwise they are held by a cart or a checkout.
    """

    seconds: float
    orders: bool


@dataclass(frozen=True)
class Bill:
    """What one order cost its buyer, and what its contents cost, in minor units."""

    paid: int
    worth: int


Sale = str  # an id that only the adapter understands
Buyer = Any  # whatever the adapter needs to act as one buyer: a token, cookies, a cart's id
Send = Callable[[Request], Response]  # sends one request at once and waits for the answer


class Shop(Protocol):
    """One shop, as the proof sees it; `STOCK` needs these seven and nothing else."""

    name: str
    version: str
    levels: frozenset[Level]

    def open(self, units: int) -> Sale:
        """Put `units` units of a new item on sale and return the sale's id."""
        ...

    def buyers(self, sale: Sale, count: int) -> Sequence[Buyer]:
        """Make `count` buyers, each logged in as far as the shop requires.

        A run without an end asks for more of them, who must be others each time.
        """
        ...

    def add_to_cart(self, sale: Sale, buyer: Buyer) -> Request | None:
        """Return the first meeting point's request; None where the shop has no cart."""
        ...

    def prepare(self, sale: Sale, buyer: Buyer, send: Send) -> None:
        """Take every step between the cart and the last step: address, delivery, payment.

        The requests go through `send`: a unit may leave the stock from the first of them on.
        """
        ...

    def buy(self, sale: Sale, buyer: Buyer) -> Request:
        """Return the last step's request, the second meeting point."""
        ...

    def outcome(self, sale: Sale, buyer: Buyer, response: Response) -> Outcome | Accepted:
        """Say what the answer to `buy` means, in the shop's own words."""
        ...

    def books(self, sale: Sale) -> Books:
        """Read the shop's own books of this sale, with nothing under way."""
        ...


@runtime_checkable
class Added(Protocol):
    """For shops whose answer to "add to cart" matters; any adapter may have this method as well."""

    def added(self, sale: Sale, buyer: Buyer, response: Response) -> None:
        """Take in the answer to `add_to_cart`: keep its cookie or the cart's id with the buyer.

        Raises:
            Declined: the shop refused; the buyer does not go on.
        """
        ...


@runtime_checkable
class Later(Protocol):
    """For shops whose answer to `buy` comes before the order's number, so `outcome` may return
    `Accepted`; any adapter may have this method as well.
    """

    def follow(self, sale: Sale, buyer: Buyer, ticket: str, send: Send) -> Outcome | Accepted:
        """Ask what came of the purchase; `Accepted` if that is not known yet.

        It is called again, every fraction of a second, until it is known or a minute is over.
        """
        ...


@runtime_checkable
class Sized(Protocol):
    """For adapters that propose the size of a rush; any adapter may have this attribute as well."""

    sizes: Sizes


@runtime_checkable
class Looks(Protocol):
    """For adapters that name a command by which anybody can see the books of a sale; any may."""

    def look(self, sale: Sale) -> str:
        """Return the command: a line of `psql`, or of `curl` to the shop's own interface."""
        ...


class Vouchers(Protocol):
    """What `Level.VOUCHERS` asks for as well: a code that may be used so many times and no more."""

    def voucher(self, sale: Sale, uses: int) -> str:
        """Make a voucher for this sale that `uses` orders may use."""
        ...

    def redeem(self, sale: Sale, buyer: Buyer, voucher: str) -> Request:
        """Return the request that puts the voucher on the buyer's cart, sent after `prepare`."""
        ...

    def redeemed(self, sale: Sale, voucher: str) -> int:
        """Return how many orders use it, by the shop's books."""
        ...


class Cancels(Protocol):
    """What `Level.CANCEL` asks for as well: an order that is given back, and holds no stock."""

    def cancel(self, sale: Sale, buyer: Buyer, order: str) -> Request:
        """Return the request that cancels an order; it is sent twice at one moment."""
        ...


class Expires(Protocol):
    """What `Level.EXPIRY` asks for as well: what is held comes back when its time is over."""

    def hold(self, sale: Sale) -> Hold:
        """Say how long units of this sale are held; a rush waits for two minutes at most."""
        ...

    def expire(self, sale: Sale) -> Request | None:
        """Return the owner's request that ends what is out of time; it is sent twice at a moment.

        None where the shop does it by itself.
        """
        ...


class Carts(Protocol):
    """What `Level.CARTS` asks for as well: an order holds exactly what was paid for."""

    def add_more(self, sale: Sale, buyer: Buyer) -> Request:
        """Return the request that adds a unit; it races with the last step."""
        ...

    def bills(self, sale: Sale) -> Mapping[str, Bill]:
        """Return what each order cost and what it holds is worth, by the shop's books."""
        ...
