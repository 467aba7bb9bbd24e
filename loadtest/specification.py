"""A shop's own model of what it promises, as the checker asks it (`Level.SPECIFICATION`).

It is asked about buyers who have sales to themselves (P21), so that it can name every answer that
is right. An adapter that has one offers it as `specification`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from loadtest.history import Shown

State = Any  # what the shop may hold at a moment: hashable, and only the adapter understands it


class Offer(NamedTuple):
    """What a sale sells; `price` in minor units of `currency`, `limit` in units per buyer."""

    stock: int
    limit: int
    price: int
    currency: str


class Question(NamedTuple):
    """What a buyer asks.

    Attributes:
        op: order (a purchase or a cart), payment, cancel, refund, read, look (at a sale), restock.
        key: of a purchase, a cart or a part; empty for none.
        wanted: units by sale: of a purchase or a part; empty for a whole order.
        cart: whether the purchase is a cart.
        order: that it is about; of a purchase, the one that its answer names, if there was one.
    """

    op: str
    buyer: str
    key: str = ""
    wanted: tuple[tuple[str, int], ...] = ()
    cart: bool = False
    order: str | None = None


class Said(NamedTuple):
    """An answer.

    Attributes:
        about: the sale that a cart's refusal names.
        order: that it names; None if it need not.
        available, left: what a refusal, or a sale that was looked at, says.
    """

    status: int
    code: str = ""
    about: str = ""
    order: str | None = None
    shown: Shown | None = None
    available: int | None = None
    left: int | None = None


class Possible(NamedTuple):
    """An answer that is right, and what the shop then holds.

    `coming` is the sale of which it says whether units may come back; empty if it says nothing.
    """

    said: Said
    state: State
    coming: str = ""


class Specification(Protocol):
    """A model of the shop; states from which nothing different can follow are equal."""

    def opened(self, sales: Mapping[str, Offer]) -> State:
        """Return the state when sales open."""
        ...

    def answers(self, state: State, question: Question) -> Iterable[Possible]:
        """Return every right answer to a question that is asked in a state."""
        ...

    def may_come_back(self, state: State, sale: str) -> frozenset[bool]:
        """Return whether units of a sale await their payment; both, if a payment may have come."""
        ...

    def without_ended(self, state: State) -> State:
        """Return the state without the orders that hold no units: their buyers are gone."""
        ...
