"""What an adapter offers beyond a rush, so that the buyers of every mix can come to a shop.

`loadtest/shop.py` has what any shop needs to be rushed. A shop with all levels also says how each
of a buyer's requests looks and what each answer means (`Requests`, `Answer`), opens and changes
sales as an operator does, and hands out its books as a whole (`FullShop`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from loadtest.checker.snapshot import Row, Terms
from loadtest.framing import Response
from loadtest.history import Receipt, Shown
from loadtest.purchases import Ask, Cart, Part, Purchase, Sale
from loadtest.sale_roles import SaleTerms
from loadtest.shop import Level, Request


class ShopRefused(RuntimeError):
    """The shop did not do it; says why. `status` is its answer's, 0 if there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class SaleUnusable(RuntimeError):
    """The sale cannot be load-tested; says why."""


class Answer(Protocol):
    """What came back to a buyer: `status` 0 and the reason as `code` if nothing did."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def code(self) -> str:
        """The stable word for what went wrong; empty if nothing did."""

    @property
    def body(self) -> Mapping[str, Any]:
        """The answer's JSON object; empty if it has none."""

    @property
    def retry_after(self) -> float:
        """Seconds after which the shop wants to be asked again; 0 if it does not say."""

    @property
    def length(self) -> int:
        """Bytes of the body."""

    @property
    def orders(self) -> Sequence[str]:
        """The orders to which a page links."""

    @property
    def order(self) -> str | None:
        """The id of the order in the answer, if it names one."""

    @property
    def unknown(self) -> bool:
        """Whether the buyer cannot tell if they got it."""

    @property
    def busy(self) -> bool:
        """Whether the shop asks to come again a little later."""

    @property
    def sold_out(self) -> bool:
        """Whether it says that too few units are left."""

    @property
    def limit_reached(self) -> bool:
        """Whether it says that the buyer has as many as they may."""

    @property
    def ended(self) -> bool:
        """Whether it says that the sale is over."""

    @property
    def declined(self) -> bool:
        """Whether the payment provider has declined."""

    @property
    def paid(self) -> bool | None:
        """Whether the order is paid; None if it can still be, or if the answer shows none."""

    @property
    def shown(self) -> Shown | None:
        """What the answer shows of an order or a sale; None if it shows none."""

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of an entry in a draw; None if it shows none."""

    @property
    def won(self) -> str | None:
        """The order of an entry that has won."""

    @property
    def seconds_to_end(self) -> float:
        """Seconds to the end of the draw that it shows, by the server's clock; 0 if unknown."""

    @property
    def pay_before(self) -> float:
        """Until when an order is to be paid, in seconds since 1970. Raises `ValueError`."""

    @property
    def action_url(self) -> str:
        """The page on which the buyer has to pay; empty if there is none."""

    @property
    def about(self) -> str | None:
        """The sale that a refusal of a cart is about; None if it names none."""

    @property
    def cookie(self) -> str:
        """The cookie of a session that was begun; empty if there is none."""

    @property
    def tokens(self) -> list[str]:
        """The tokens of buyers that were made; none if there are none."""

    def expected(self, must: int) -> bool:
        """Whether a healthy shop may say this to a request that it must refuse so, or may grant."""


class Requests(Protocol):
    """Everything that a buyer can ask for, as requests without a buyer's token."""

    HOME: Request
    ORDERS_PAGE: Request
    SIGN_IN: Request

    def headers(
        self, token: str, *, key: str = "", cookie: str = "", body: bool = False
    ) -> dict[str, str]:
        """Return the headers of a request in a buyer's name, under an idempotency key."""

    def purchase(self, wanted: Purchase) -> Request:
        """Buy."""

    def cart(self, wanted: Cart) -> Request:
        """Buy a cart."""

    def look(self, sale: str) -> Request:
        """Look at a sale."""

    def enter(self, sale: str) -> Request:
        """Enter a draw."""

    def withdraw(self, sale: str) -> Request:
        """Withdraw an entry."""

    def entry(self, sale: str) -> Request:
        """Look at one's own entry."""

    def draw(self, sale: str) -> Request:
        """Look at a draw."""

    def read(self, order: str) -> Request:
        """Look at an order."""

    def step(self, order: str, what: str, part: Part | None = None) -> Request:
        """Pay, cancel or refund an order, or a part of it."""

    def restock(self, sale: str, units: int) -> Request:
        """Add units to a sale, which no buyer may."""

    def buyers(self, count: int) -> Request:
        """Make synthetic buyers."""

    def sale_page(self, sale: str) -> Request:
        """Load a sale's page."""

    def order_page(self, order: str) -> Request:
        """Load an order's page."""

    def mails_page(self, order: str) -> Request:
        """Load the page of an order's mails."""


class Invalid(Protocol):
    """Requests that the shop must refuse, and that change nothing."""

    def invalid_requests(self, bought: Purchase, order: str | None, token: str) -> Iterator[Ask]:
        """Return one request of each kind."""

    def smaller_cart(self, cart: Cart) -> Ask:
        """Return a request for all but the last line of a cart that was bought, under its key."""

    def larger_cart(self, cart: Cart, more: Sale) -> Ask:
        """Return a request for a cart that was bought and a unit of another sale, under its key."""

    def anothers_key(self, wanted: Purchase, *, ended: bool = False) -> Ask:
        """Return another buyer's request for more than the limit, under the key of a purchase."""


class FullShop(Protocol):
    """A shop with all levels.

    Attributes:
        address: its host and port.
        levels: that it offers to the buyers of mixes.
        further_sales: from which carts were filled as well: they belong to what is asked of a sale.
        requests, invalid: what its buyers ask.
        makes_buyers: what to ask where the shop makes no buyers.
    """

    address: tuple[str, int]
    full_levels: frozenset[Level]
    further_sales: Sequence[str]
    makes_buyers: str

    @property
    def operates(self) -> bool:
        """Whether a load test may open its sales, change them and restock them."""

    @property
    def has_books(self) -> bool:
        """Whether the load test can read its books."""

    @property
    def lifecycle(self) -> Sequence[Row]:
        """The statuses of its orders, and the steps between them."""

    @property
    def requests(self) -> Requests:
        """What its buyers ask."""

    @property
    def invalid(self) -> Invalid:
        """What it must refuse."""

    def understand(self, response: Response) -> Answer:
        """Read an answer."""

    def nothing(self, code: str) -> Answer:
        """Return that no answer came, and why."""

    def classify(self, status: int, code: str, order: str | None, *, op: str = "order") -> str:
        """Return what a client may conclude from an answer: `ok`, `fail` or `info`."""

    def sale_of(self, sale: str, answer: Answer, *, answered: float) -> Sale:
        """Read what the shop says of a sale, answered at this monotonic time in seconds.

        Raises:
            SaleUnusable: something is missing.
        """

    def strategies(self) -> list[dict[str, Any]]:
        """Return its ways of selling, the default first."""

    def open_sale(self, terms: SaleTerms, starts_in: float) -> str:
        """Open a fresh sale, in so many seconds; return its id."""

    def change(self, sale: str, **changes: Any) -> Terms:
        """Change a sale; return the terms in force after it."""

    def figures(self, sale: str) -> dict[str, Any]:
        """Return what the sale has come to."""

    def restock(self, sale: str, units: int) -> None:
        """Add units."""

    def snapshot(self, sale: str, path: Path) -> None:
        """Write all tables of the sale to a file, which is there only if it is whole."""

    def ledger(self, sale: str, path: Path) -> None:
        """Write what the payment provider moved for the sale to a file, if it is whole."""

    def deliveries(self, sale: str, path: Path) -> None:
        """Write the mails about the sale to a file, if all of them have come."""

    def look(self, sale: str) -> str:
        """Return a command by which anybody can see the books of a sale."""
