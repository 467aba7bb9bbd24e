"""Our shop, with all levels: `loadtest.shops.flash_sale.adapter:Adapter`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from loadtest.address import address_of
from loadtest.checker import snapshot
from loadtest.full_shop import Answer
from loadtest.history import FAIL, OK
from loadtest.purchases import Sale
from loadtest.release import send
from loadtest.sale_roles import SaleTerms
from loadtest.shop import (
    Bill,
    Books,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Send,
    Sold,
    Unknown,
)
from loadtest.shops.flash_sale import LEVELS, invalid, look_of, requests
from loadtest.shops.flash_sale.answers import (
    classify,
    nothing,
    read,
    sale_of,
    understand,
)
from loadtest.shops.flash_sale.demo import DemoShop
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE

LIMIT = 1
"""Units per buyer."""


@dataclass(frozen=True, slots=True)
class Buyer:
    """A buyer's token, and the idempotency key of their one purchase."""

    token: str
    key: str = field(default_factory=lambda: str(uuid.uuid4()))


class Adapter(DemoShop):
    """A shop in demo mode; it has no vouchers."""

    name, version = "flash-sale", "this"
    # Orders expire by the follow-up's workers, which need not run when a shop is rushed.
    levels = LEVELS - {Level.EXPIRY}
    full_levels = LEVELS
    operates = has_books = True
    lifecycle = LIFECYCLE
    requests, invalid, makes_buyers = requests, invalid, requests.MAKES_BUYERS
    classify, nothing = staticmethod(classify), staticmethod(nothing)
    understand = staticmethod(understand)
    strategy = ""  # the shop's default
    look = staticmethod(look_of)

    def __init__(self, url: str) -> None:
        # Whether it may be loaded was decided when the adapter was loaded.
        super().__init__(address_of(url, owned=True))

    def open(self, units: int) -> str:
        """Open a fresh sale."""
        strategy = self.strategy or str(self.strategies()[0]["name"])
        return self.open_sale(SaleTerms(units, LIMIT, strategy), 0.0)

    def buyers(self, sale: str, count: int) -> Sequence[Buyer]:
        """Make synthetic buyers."""
        answer = send(self.address, _with(requests.buyers(count), ""))
        return [Buyer(token) for token in read(answer.status, answer.body).tokens]

    def add_to_cart(self, sale: str, buyer: Buyer) -> Request | None:
        """Return none: a cart is in the buyer's browser until it is ordered."""
        return None

    def prepare(self, sale: str, buyer: Buyer, send: Send) -> None:
        """Do nothing: an order is paid after it is opened."""

    def buy(self, sale: str, buyer: Buyer) -> Request:
        """Buy a unit; the same again is a repeat."""
        request = requests.purchase_of(sale, requests.json_of(quantity=1))
        return _with(request, buyer.token, buyer.key)

    def outcome(self, sale: str, buyer: Buyer, response: Response) -> Outcome:
        """Understand an answer to a purchase."""
        answer = read(response.status, response.body)
        outcome = classify(answer.status, answer.code, answer.order)
        if outcome == OK and answer.order is not None:
            return Sold(answer.order)
        said = answer.code or f"status {answer.status}"
        return Refused(said) if outcome == FAIL else Unknown(said)

    def books(self, sale: str) -> Books:
        """Read the item and the orders that hold stock."""
        rows = self._rows(sale)
        [item] = [row for row in rows if isinstance(row, snapshot.Item)]
        held = {
            row.id: row.quantity - row.returned
            for row in rows
            if isinstance(row, snapshot.Reservation) and row.state != snapshot.RELEASED
        }
        ordered = [row for row in rows if isinstance(row, snapshot.Order)]
        orders = {row.id: held[row.reservation] for row in ordered if row.reservation in held}
        return Books(item.total, item.available, orders)

    def cancel(self, sale: str, buyer: Buyer, order: str) -> Request:
        """Cancel an unpaid order."""
        return _with(requests.step(order, "cancel", None), buyer.token)

    def add_more(self, sale: str, buyer: Buyer) -> Request:
        """Ask for another unit under the purchase's own key."""
        request = requests.purchase_of(sale, requests.json_of(quantity=2))
        return _with(request, buyer.token, buyer.key)

    def bills(self, sale: str) -> Mapping[str, Bill]:
        """Compare what is to be paid with the price of what was ordered."""
        rows = self._rows(sale)
        [price] = [row.price for row in rows if isinstance(row, snapshot.Sale)]
        orders = [row for row in rows if isinstance(row, snapshot.Order)]
        return {order.id: Bill(order.to_pay, order.quantity * price) for order in orders}

    def sale_of(self, sale: str, answer: Answer, *, answered: float) -> Sale:
        """Read what the shop says of a sale. Raises `SaleUnusable`."""
        return sale_of(sale, answer.body, answered=answered)

    def _rows(self, sale: str) -> list[snapshot.Row]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "snapshot"
            self.snapshot(sale, path)
            return list(snapshot.read(path)[1])


def _with(request: Request, token: str, key: str = "") -> Request:
    return replace(request, headers=requests.headers(token, key=key, body=bool(request.body)))
