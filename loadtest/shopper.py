"""A synthetic buyer: everything that can be asked of the shop, and what buyers share."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import NamedTuple, TypedDict, Unpack

from loadtest.caller import Caller
from loadtest.client import Connection
from loadtest.finished import Report
from loadtest.history import Recorder
from loadtest.purchases import Cart, Part, Purchase, Sale, new_key
from loadtest.roles import MAIN, OWN
from loadtest.shop import Request
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.answers import EXPECTED_OF_PARTS, Answer
from loadtest.shops.flash_sale.invalid import Invalid

# Buyers do not all press in the same microsecond: most seconds from the opening to the first press.
REACTION_TIME = 0.05


class How(TypedDict, total=False):
    """A connection other than the buyer's own; further refusals that a healthy shop may give."""

    connection: Connection | None
    expects: Collection[str]


# The last ones; enough to choose from, and the same memory in a run of hours.
KEPT = 100


class KnownOrders:
    """The last orders of all buyers of one load-generating process."""

    def __init__(self) -> None:
        self._orders: deque[tuple[str, str]] = deque(maxlen=KEPT)

    def add(self, buyer: str, order: str) -> None:
        """Note that a buyer got an order."""
        if (buyer, order) not in self._orders:
            self._orders.append((buyer, order))

    def of_others(self, buyer: str, random: Random, most: int) -> list[str]:
        """Up to so many orders of other buyers, drawn at random."""
        others = [order for owner, order in self._orders if owner != buyer]
        return random.sample(others, min(most, len(others)))

    def is_of(self, buyer: str, order: str) -> bool:
        """Whether a buyer is known to have got an order."""
        return (buyer, order) in self._orders


class Own(NamedTuple):
    """Two sales that nobody else uses now; `name` is theirs in the history."""

    name: str
    sales: tuple[Sale, Sale]


class OwnSales:
    """The pairs of own sales of a load-generating process.

    Args:
        sales: of the run, by role.
    """

    def __init__(self, sales: Mapping[str, Sale]) -> None:
        self._free = [
            Own(f"{one}+{other}", (sales[one], sales[other]))
            for one, other in OWN
            if one in sales and other in sales
        ]
        self._lock = threading.Lock()

    @contextmanager
    def use(self) -> Iterator[Own | None]:
        """Have a pair for the time of the context; None if none is free."""
        with self._lock:
            own = self._free.pop(0) if self._free else None
        try:
            yield own
        finally:
            if own is not None:
                with self._lock:
                    self._free.append(own)


class Shopper(Caller):
    """One buyer with a token and a connection."""

    def __init__(
        self,
        *,
        name: str,
        token: str,
        sales: Mapping[str, Sale],
        connection: Connection,
        recorder: Recorder | None,
        report: Report,
        known: KnownOrders | None = None,
        own: OwnSales | None = None,
        friend: Callable[[int], Shopper] | None = None,
        client: str = "",
        due: int | None = None,
    ) -> None:
        """`sales` are those of the run, by their roles; `own` those that are for one at a time.

        `known` are the orders of all buyers; `friend` makes another buyer, who has a connection of
        their own and is numbered among this one's friends; `client` and `due` are those of
        `Caller`.
        """
        super().__init__(
            name=name,
            token=token,
            connection=connection,
            recorder=recorder,
            report=report,
            client=client,
            due=due,
        )
        self.sale = sales[MAIN]
        self.sales = sales
        self.own = own or OwnSales({})
        self.friend = friend
        self.known = known or KnownOrders()
        self.sleep = time.sleep
        self._attempts: dict[str, int] = {}

    def wait_for_opening(self, random: Random) -> None:
        """Wait until the sale is open, unless this buyer arrives at a time of their own."""
        if self._due is None:
            self.sale.wait_for_opening()
            self.sleep(random.random() * REACTION_TIME)

    def sale_of(self, role: str) -> Sale:
        """The sale in a role; the main one, if the run has none in it."""
        return self.sales.get(role, self.sale)

    def wants(self, quantity: int = 1, sale: Sale | None = None) -> Purchase:
        """A new purchase, in the main sale unless another one is named."""
        return Purchase(new_key(), quantity, sale or self.sale)

    def asked(self, key: str, attempts: int) -> None:
        """Take note that a purchase was asked for so often before."""
        self._attempts[key] = attempts

    def order(self, purchase: Purchase, **how: Unpack[How]) -> Answer:
        """Ask for a purchase once; asking again with the same one is a retry."""
        answer = self._call(
            "order",
            requests.purchase(purchase),
            key=purchase.key,
            attempt=self._next_attempt(purchase.key),
            sale=purchase.sale,
            quantity=purchase.quantity,
            **how,
        )
        self._note(answer)
        return answer

    def check_out(self, cart: Cart) -> Answer:
        """Ask for a cart once; asking again with the same one is a retry."""
        answer = self._call(
            "order",
            requests.cart(cart),
            key=cart.key,
            attempt=self._next_attempt(cart.key),
            cart=cart,
        )
        self._note(answer)
        return answer

    def look(self, sale: Sale | None = None) -> Answer:
        """Look at a sale; the main one, unless another one is named."""
        sale = sale or self.sale
        return self._call("look", requests.look(sale.id), sale=sale)

    def read(self, order: str, *, expects: Collection[str] = ()) -> Answer:
        """Look at an order."""
        return self._call("read", requests.read(order), order=order, expects=expects)

    def restock(self, sale: Sale, units: int) -> Answer:
        """Add units to a sale, as its operator; a shop that is no demo refuses it."""
        request = requests.restock(sale.id, units)
        # The key tells one restock from another in the history; the shop asks for none.
        return self._call("restock", request, key=new_key(), sale=sale, quantity=units)

    def send_invalid(self, request: Invalid) -> Answer:
        """Send a request that the shop must refuse."""
        return self._call(
            "invalid",
            request.request,
            key=request.key,
            order=request.order,
            token=request.token,
            must=request.must,
            expects=(request.code,),
        )

    def see_home(self) -> Answer:
        """Load the home page."""
        return self._see(requests.HOME)

    def see_sale(self) -> Answer:
        """Load the sale's page."""
        return self._see(requests.sale_page(self.sale.id))

    def see_orders(self) -> Answer | None:
        """Load the list of the buyer's orders; None if the shop did not sign the buyer in."""
        self._sign_in()
        return self._see(requests.ORDERS_PAGE) if self._cookie else None

    def see_order(self, order: str, *, expects: Collection[str] = ()) -> Answer | None:
        """Load an order's page; None if the shop did not sign the buyer in."""
        self._sign_in()
        if not self._cookie:
            return None
        return self._see(requests.order_page(order), order, expects)

    def see_mails(self, order: str, *, expects: Collection[str] = ()) -> Answer | None:
        """Load the page of an order's mails; None if the shop did not sign the buyer in."""
        self._sign_in()
        if not self._cookie:
            return None
        return self._call("mail", requests.mails_page(order), order=order, expects=expects)

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

    def _next_attempt(self, key: str) -> int:
        self._attempts[key] = self._attempts.get(key, 0) + 1
        return self._attempts[key]

    def _note(self, answer: Answer) -> None:
        if answer.order is not None:
            self.known.add(self.name, answer.order)

    def _sign_in(self) -> None:
        if not self._cookie:
            self._cookie = self._call("sign_in", requests.SIGN_IN).cookie

    def _see(
        self, request: Request, order: str | None = None, expects: Collection[str] = ()
    ) -> Answer:
        return self._call("page", request, order=order, expects=expects)

    def _step(self, op: str, order: str, part: Part | None, **how: Unpack[How]) -> Answer:
        request = requests.step(order, op, part)
        if part is None:
            return self._call(op, request, order=order, **how)
        how["expects"] = (*EXPECTED_OF_PARTS, *how.get("expects", ()))
        return self._call(
            op,
            request,
            key=part.key,
            attempt=self._next_attempt(part.key),
            sale=part.sale,
            quantity=part.quantity,
            order=order,
            **how,
        )
