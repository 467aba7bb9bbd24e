"""The shop: what buyers may do, what the clock does, and what waits behind it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress

from shop.specification.money import Till
from shop.specification.order import AWAITING, MAILS, Line, Order
from shop.specification.sale import Refused, Sale


class Shop(Till):
    """One shop; its sales in order of their numbers, its orders the oldest first."""

    def __init__(self, sales: list[Sale]) -> None:
        self.sales = sales
        self.orders: list[Order] = []
        self.carts: dict[str, dict[Sale, int]] = {}  # by browser: units by sale

    def buy(
        self, buyer: str, key: Hashable, wanted: Mapping[Sale, int], *, cart: bool = False
    ) -> tuple[Order, bool]:
        """Buy all of it, or nothing; return the order, and whether it is an earlier one.

        The same key brings the same order, also when the sale is over.
        """
        lines = {sale: wanted[sale] for sale in self.sales if sale in wanted}
        for sale, units in lines.items():
            if not 1 <= units <= 1000:
                raise Refused("invalid_quantity", about=sale)
        if len({sale.currency for sale in lines}) != 1:
            raise Refused("invalid_cart")
        for order in self.of(buyer):
            if order.key == key:
                if {line.sale: line.quantity for line in order.lines} != lines:
                    raise Refused("idempotency_key_reused")
                return order, True
        for sale in lines:
            if code := sale.closed(self.now):
                raise Refused(code, about=sale)
        for sale, units in lines.items():
            self._check(buyer, sale, units, cart=cart)
        bought = [Line(sale, units, sale.price, units) for sale, units in lines.items()]
        deadline = self.now + min(sale.hold for sale in lines)
        self.orders.append(Order(buyer, key, bought, bought[0].sale.currency, deadline))
        return self.orders[-1], False

    def _check(self, buyer: str, sale: Sale, units: int, *, cart: bool) -> None:
        left, available = sale.left_for(buyer), sale.available
        if units > left:
            # Who never bought may be told that nothing is left before the limit is looked at.
            new = not cart and not available and not self.of(buyer)
            or_else = "sold_out" if new else ""
            raise Refused("limit_reached", about=sale, left=left, or_else=or_else)
        if units > available:
            coming = self.may_come_back(sale)
            raise Refused("sold_out", about=sale, available=available, may_come_back=coming)

    def of(self, buyer: str) -> list[Order]:
        """Return a buyer's orders, which nobody else sees."""
        return [order for order in self.orders if order.buyer == buyer]

    def may_come_back(self, sale: Sale) -> bool:
        """Tell whether units are reserved but not paid, and so may be for sale again."""
        unpaid = [order for order in self.orders if order.status == AWAITING]
        return any(line.sale is sale and line.kept for order in unpaid for line in order.lines)

    def put_into_cart(self, browser: str, sale: Sale, units: int) -> None:
        """Set what a cart holds of a sale; none removes it. A cart has one currency."""
        if not 0 <= units <= 1000:
            raise Refused("invalid_quantity")
        cart = self.carts.setdefault(browser, {})
        if units and any(each.currency != sale.currency for each in cart):
            raise Refused("invalid_cart")
        cart.pop(sale, None)
        cart |= {sale: units} if units else {}

    def check_out(self, browser: str, key: Hashable) -> Order | None:
        """Buy the cart, which is empty then; None if it was empty and the key bought nothing."""
        cart = self.carts.get(browser)
        if not cart:
            return next((order for order in self.of(browser) if order.key == key), None)
        order, _ = self.buy(browser, key, cart, cart=True)
        cart.clear()
        return order

    def settle(self) -> None:
        """Ask the provider about all that has no answer yet: payments, then refunds."""
        for asks, kind in ((self.ask_about, "payments"), (self.ask_for, "refunds")):
            for order in self.orders:
                for each in getattr(order, kind):
                    with suppress(Refused):
                        if each.state == "pending":
                            asks(order, each)

    def follow_up(self) -> None:
        """Owe the mails that follow what happened."""
        for order in self.orders:
            for kind in order.news:
                if kind in MAILS:
                    order.mails.setdefault(MAILS[kind], False)
            order.news.clear()
