"""A synthetic buyer: everything that can be asked of the shop."""

from __future__ import annotations

import time
from collections.abc import Collection
from random import Random
from typing import TypedDict, Unpack

from loadtest.caller import Ask, Caller
from loadtest.client import Connection
from loadtest.purchases import Cart, Part, Purchase, Sale, new_key
from loadtest.roles import MAIN
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.answers import EXPECTED_OF_PARTS, Answer
from loadtest.shops.flash_sale.invalid import Invalid

# Buyers do not all press in the same microsecond: most seconds from the opening to the first press.
REACTION_TIME = 0.05


class How(TypedDict, total=False):
    """A connection other than the buyer's own; further refusals that a healthy shop may give."""

    connection: Connection | None
    expects: Collection[str]


class Shopper(Caller):
    """One buyer with a token and a connection."""

    sleep = staticmethod(time.sleep)

    @property
    def sale(self) -> Sale:
        """The main sale."""
        return self.crowd.sales[MAIN]

    def friend(self, number: int) -> Shopper:
        """Another buyer, with a connection of their own, numbered among this one's friends."""
        return type(self)(self.crowd, f"{self.name}.{number}", self.beside())

    def wait_for_opening(self, random: Random) -> None:
        """Wait until the sale is open, unless this buyer arrives at a time of their own."""
        if self.due is None:
            self.sale.wait_for_opening()
            self.sleep(random.random() * REACTION_TIME)

    def sale_of(self, role: str) -> Sale:
        """The sale in a role; the main one, if the run has none in it."""
        return self.crowd.sales.get(role, self.sale)

    def wants(self, quantity: int = 1, sale: Sale | None = None) -> Purchase:
        """A new purchase, in the main sale unless another one is named."""
        return Purchase(new_key(), quantity, sale or self.sale)

    def order(self, purchase: Purchase, **how: Unpack[How]) -> Answer:
        """Ask for a purchase once; asking again with the same one is a retry."""
        wanted = purchase.key, purchase.sale, purchase.quantity
        return self._noted(self._call(Ask("order", requests.purchase(purchase), *wanted), **how))

    def check_out(self, cart: Cart) -> Answer:
        """Ask for a cart once; asking again with the same one is a retry."""
        return self._noted(self._call(Ask("order", requests.cart(cart), cart.key, cart=cart)))

    def look(self, sale: Sale | None = None) -> Answer:
        """Look at a sale; the main one, unless another one is named."""
        sale = sale or self.sale
        return self._call(Ask("look", requests.look(sale.id), sale=sale))

    def read(self, order: str, **how: Unpack[How]) -> Answer:
        """Look at an order."""
        return self._call(Ask("read", requests.read(order), order=order), **how)

    def restock(self, sale: Sale, units: int) -> Answer:
        """Add units to a sale, as its operator; a shop that is no demo refuses it."""
        # The key tells one restock from another in the history; the shop asks for none.
        return self._call(Ask("restock", requests.restock(sale.id, units), new_key(), sale, units))

    def send_invalid(self, wrong: Invalid) -> Answer:
        """Send a request that the shop must refuse."""
        ask = Ask(
            *("invalid", wrong.request, wrong.key),
            order=wrong.order,
            must=wrong.must,
            token=wrong.token,
        )
        return self._call(ask, expects=(wrong.code,))

    def see_home(self) -> Answer:
        """Load the home page."""
        return self._call(Ask("page", requests.HOME))

    def see_sale(self) -> Answer:
        """Load the sale's page."""
        return self._call(Ask("page", requests.sale_page(self.sale.id)))

    def see_orders(self) -> Answer | None:
        """Load the list of the buyer's orders; None if the shop did not sign the buyer in."""
        return self._signed_in(Ask("page", requests.ORDERS_PAGE))

    def see_order(self, order: str, **how: Unpack[How]) -> Answer | None:
        """Load an order's page; None if the shop did not sign the buyer in."""
        return self._signed_in(Ask("page", requests.order_page(order), order=order), **how)

    def see_mails(self, order: str, **how: Unpack[How]) -> Answer | None:
        """Load the page of an order's mails; None if the shop did not sign the buyer in."""
        return self._signed_in(Ask("mail", requests.mails_page(order), order=order), **how)

    def pay(self, order: str, **how: Unpack[How]) -> Answer:
        """Pay an order."""
        return self._step("payment", order, None, **how)

    def cancel(self, order: str, part: Part | None = None, **how: Unpack[How]) -> Answer:
        """Cancel an order, or a part of it."""
        return self._step("cancel", order, part, **how)

    def refund(self, order: str, part: Part | None = None, **how: Unpack[How]) -> Answer:
        """Ask for the money of an order back, or for that of a part of it."""
        return self._step("refund", order, part, **how)

    def beside(self) -> Connection:
        """A second connection, for what a buyer does in two windows at once; close it after use."""
        return self._connection.like()

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _noted(self, answer: Answer) -> Answer:
        if answer.order is not None:
            self.crowd.known.add(self.name, answer.order)
        return answer

    def _signed_in(self, ask: Ask, **how: Unpack[How]) -> Answer | None:
        if not self._cookie:
            self._cookie = self._call(Ask("sign_in", requests.SIGN_IN)).cookie
        return self._call(ask, **how) if self._cookie else None

    def _step(self, op: str, order: str, part: Part | None, **how: Unpack[How]) -> Answer:
        request = requests.step(order, op, part)
        if part is None:
            return self._call(Ask(op, request, order=order), **how)
        how["expects"] = (*EXPECTED_OF_PARTS, *how.get("expects", ()))
        ask = Ask(op, request, part.key, part.sale, part.quantity, order=order)
        return self._call(ask, **how)
