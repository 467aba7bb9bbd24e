"""A synthetic buyer: everything that can be asked of the shop; and what all buyers share.

The history is written before and after each request; Locust counts it afterwards.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from random import Random

from loadtest.calls import Finished, Report, UnexpectedAnswer
from loadtest.client import Connection
from loadtest.full_shop import Answer, FullShop, Requests
from loadtest.history import FAIL, OK, Operation, Recorder
from loadtest.purchases import Ask, Cart, Line, Part, Purchase, Sale, new_key
from loadtest.sale_roles import MAIN

# Buyers do not all press in the same microsecond: most seconds from the opening to the first press.
REACTION_TIME = 0.05

# Calls whose answers show an order.
SHOW_ORDER = frozenset({"order", "read", "payment", "cancel", "refund"})

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


@dataclass(frozen=True, slots=True)
class Crowd:
    """The buyers of one process.

    Attributes:
        shop: that they come to.
        sales: of the run, by their roles.
        recorder: writes down every call; None: nothing is.
        take_token: returns the token of a new buyer, by the buyer's name.
        report: called with every call that is over.
        known: the last orders of all buyers.
    """

    shop: FullShop
    sales: Mapping[str, Sale]
    recorder: Recorder | None
    take_token: Callable[[str], str]
    report: Report = lambda _: None
    known: KnownOrders = field(default_factory=KnownOrders)


class Shopper:
    """One buyer with a token and a connection.

    Attributes:
        name: of the buyer.
        token: of the buyer.
        due: when this buyer meant to come, in an open loop (ns of the monotonic clock).
    """

    sleep = staticmethod(time.sleep)
    due: int | None = None

    def __init__(self, crowd: Crowd, name: str, connection: Connection, client: str = "") -> None:
        """`client` is who asks in the buyer's name, in the history; the buyer, if empty."""
        self.crowd, self.name, self.token = crowd, name, crowd.take_token(name)
        self._client = client or name
        self._connection = connection
        self._calls = count(1)
        self._attempts: dict[str, int] = {}
        self._cookie = ""

    def asked(self, key: str, attempts: int) -> None:
        """Take note that a key was used so often before."""
        self._attempts[key] = attempts

    @property
    def requests(self) -> Requests:
        """What buyers of this shop can ask for."""
        return self.crowd.shop.requests

    @property
    def sale(self) -> Sale:
        """The main sale."""
        return self.crowd.sales[MAIN]

    def friend(self, number: int) -> Shopper:
        """Another buyer, with a connection of their own, numbered among this one's friends."""
        return type(self)(self.crowd, f"{self.name}.{number}", self._connection.like())

    def window(self) -> Shopper:
        """This buyer in a second window, with a connection of its own; close it after use."""
        other = copy(self)
        other._connection, other.due = self._connection.like(), None
        return other

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

    def order(self, purchase: Purchase) -> Answer:
        """Ask for a purchase once; asking again with the same one is a retry."""
        wanted = purchase.key, purchase.sale, purchase.quantity
        return self._noted(self.ask(Ask("order", self.requests.purchase(purchase), *wanted)))

    def check_out(self, cart: Cart) -> Answer:
        """Ask for a cart once; asking again with the same one is a retry."""
        return self._noted(self.ask(Ask("order", self.requests.cart(cart), cart.key, cart=cart)))

    def look(self, sale: Sale | None = None) -> Answer:
        """Look at a sale; the main one, unless another one is named."""
        sale = sale or self.sale
        return self.ask(Ask("look", self.requests.look(sale.id), sale=sale))

    def enter(self, sale: Sale) -> Answer:
        """Enter a draw."""
        return self.ask(Ask("enter", self.requests.enter(sale.id), sale=sale))

    def withdraw(self, sale: Sale) -> Answer:
        """Withdraw from a draw."""
        return self.ask(Ask("withdraw", self.requests.withdraw(sale.id), sale=sale))

    def see_entry(self, sale: Sale) -> Answer:
        """Look at the buyer's own entry in a draw."""
        return self.ask(Ask("entry", self.requests.entry(sale.id), sale=sale))

    def see_draw(self, sale: Sale) -> Answer:
        """Look at a draw."""
        return self.ask(Ask("draw", self.requests.draw(sale.id), sale=sale))

    def take_won(self, sale: Sale, order: str) -> Answer:
        """Pay what was won. P24 looks at it, so the history does not name the order."""
        return self.ask(Ask("take", self.requests.step(order, "payment"), sale=sale))

    def decline_won(self, sale: Sale, order: str) -> Answer:
        """Cancel what was won."""
        return self.ask(Ask("decline", self.requests.step(order, "cancel"), sale=sale))

    def read(self, order: str) -> Answer:
        """Look at an order."""
        return self.ask(Ask("read", self.requests.read(order), order=order))

    def restock(self, sale: Sale, units: int) -> Answer:
        """Add units to a sale, as its operator; a shop that is no demo refuses it."""
        # The key tells one restock from another in the history; the shop asks for none.
        return self.ask(
            Ask("restock", self.requests.restock(sale.id, units), new_key(), sale, units)
        )

    def see_home(self) -> Answer:
        """Load the home page."""
        return self.ask(Ask("page", self.requests.HOME))

    def see_sale(self) -> Answer:
        """Load the sale's page."""
        return self.ask(Ask("page", self.requests.sale_page(self.sale.id)))

    def see_orders(self) -> Answer | None:
        """Load the list of the buyer's orders; None if the shop did not sign the buyer in."""
        return self._signed_in(Ask("page", self.requests.ORDERS_PAGE))

    def see_order(self, order: str) -> Answer | None:
        """Load an order's page; None if the shop did not sign the buyer in."""
        return self._signed_in(Ask("page", self.requests.order_page(order), order=order))

    def see_mails(self, order: str) -> Answer | None:
        """Load the page of an order's mails; None if the shop did not sign the buyer in."""
        return self._signed_in(Ask("mail", self.requests.mails_page(order), order=order))

    def pay(self, order: str) -> Answer:
        """Pay an order."""
        return self._step("payment", order, None)

    def cancel(self, order: str, part: Part | None = None) -> Answer:
        """Cancel an order, or a part of it."""
        return self._step("cancel", order, part)

    def refund(self, order: str, part: Part | None = None) -> Answer:
        """Ask for the money of an order back, or for that of a part of it."""
        return self._step("refund", order, part)

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _noted(self, answer: Answer) -> Answer:
        if answer.order is not None:
            self.crowd.known.add(self.name, answer.order)
        return answer

    def _signed_in(self, ask: Ask) -> Answer | None:
        if not self._cookie:
            self._cookie = self.ask(Ask("sign_in", self.requests.SIGN_IN)).cookie
        return self.ask(ask) if self._cookie else None

    def _step(self, op: str, order: str, part: Part | None) -> Answer:
        request = self.requests.step(order, op, part)
        if part is None:
            return self.ask(Ask(op, request, order=order))
        return self.ask(Ask(op, request, part.key, part.sale, part.quantity, order=order))

    def ask(self, ask: Ask) -> Answer:
        """Ask once; a cart is one request, and a call of the history for each of its lines."""
        call = f"{self._client}#{next(self._calls)}"
        lines: dict[str, Line | Ask] = {call: ask}
        if ask.cart is not None:
            lines = {f"{call}.{place}": line for place, line in enumerate(ask.cart.lines)}
        # Only the first call has a time of its own; the others follow from its answer.
        due, self.due = self.due, None
        started = self._begin(ask, lines, due)
        token = self.token if ask.token is None else ask.token
        headers = self.requests.headers(
            token, key=ask.key, cookie=self._cookie, body=bool(ask.request.body)
        )
        reply, shop = self._connection.request(ask.request, headers), self.crowd.shop
        answer = shop.nothing(reply) if isinstance(reply, str) else shop.understand(reply)
        milliseconds = (time.monotonic_ns() - started) / 1e6
        outcome = self._end(ask, lines, answer)
        said = str(answer.status) if outcome == OK else answer.code or str(answer.status)
        expected = outcome == OK or (outcome == FAIL and answer.expected(ask.must))
        problem = None if expected else UnexpectedAnswer(f"{answer.status} {answer.code}".strip())
        text = f"{'cart' if ask.cart else ask.op}: {said}"
        self.crowd.report(Finished(ask.op, outcome, text, milliseconds, answer.length, problem))
        return answer

    def _begin(self, ask: Ask, lines: Mapping[str, Line | Ask], due: int | None) -> int:
        """Write down what is asked for; return when, or when it was due."""
        attempt = 1
        if ask.key and not ask.must:
            attempt = self._attempts[ask.key] = self._attempts.get(ask.key, 0) + 1
        for name, line in lines.items():
            if self.crowd.recorder is not None:
                self.crowd.recorder.invoke(
                    Operation(
                        0,
                        name,
                        ask.op,
                        self._client,
                        self.name,
                        line.key,
                        attempt=attempt,
                        sale=line.sale.id if line.sale else None,
                        item=line.sale.item if line.sale else None,
                        quantity=line.quantity,
                        order=ask.order,
                        due=due,
                        cart=ask.key if ask.cart else "",
                        must=ask.must,
                    )
                )
        return due or time.monotonic_ns()

    def _end(self, ask: Ask, lines: Mapping[str, Line | Ask], answer: Answer) -> str:
        """Write down how the calls of a request ended: their outcome."""
        # An answer that shows another order than was asked for must be seen as that.
        shows_order = ask.op in SHOW_ORDER
        named = (answer.order if shows_order else None) or ask.order
        outcome = self.crowd.shop.classify(answer.status, answer.code, named, op=ask.op)
        for name, line in lines.items():
            code = answer.code
            if isinstance(line, Line):
                code = Cart.code_of(line, code, answer.about)
            if self.crowd.recorder is not None:
                self.crowd.recorder.complete(
                    name,
                    outcome,
                    status=answer.status,
                    code=code,
                    order=named,
                    shown=answer.shown if shows_order or ask.op == "look" else None,
                    orders=answer.orders,
                    receipt=answer.receipt if ask.op == "enter" and outcome == OK else None,
                )
        return outcome
