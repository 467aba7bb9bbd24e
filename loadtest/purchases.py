"""What a buyer asks for, and the sale that it is about: a purchase, a cart, a part to give back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.shop import Request


@dataclass(frozen=True, slots=True)
class Sale:
    """What a buyer needs to know of a sale.

    `opens_at` is on this process's monotonic clock; `clock` is what to add to a time of the server
    (in seconds since 1970) to have it on that clock.
    """

    id: str
    item: str | None
    limit: int
    opens_at: float
    clock: float = 0.0

    def wait_for_opening(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Return when the sale is open."""
        while (left := self.opens_at - time.monotonic()) > 0:
            sleep(left)


def new_key() -> str:
    """An idempotency key. Random even in a seeded run: keys must never be used twice."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Purchase:
    """One idempotency key: what a buyer wants, however often they have to ask."""

    key: str
    quantity: int
    sale: Sale


@dataclass(frozen=True, slots=True)
class Part:
    """Units of an order's line to cancel or return, under a key of their own.

    `named` says whether the request names the line, which an order of one line does not need.
    """

    quantity: int
    sale: Sale
    key: str = field(default_factory=new_key)
    named: bool = True


# What the history says of a line that was not bought because another one of its cart could not be.
WITH_ANOTHER = "not_without_another_line"


class Line(NamedTuple):
    """A line of a cart, under the idempotency key that the shop gives it."""

    sale: Sale
    quantity: int
    key: str


class Cart(NamedTuple):
    """What a buyer wants together: one key, however often they have to ask."""

    key: str
    lines: tuple[Line, ...]

    @classmethod
    def of(cls, wanted: Mapping[Sale, int]) -> Cart:
        """So many of each sale. The lines' keys are made as the API says that the shop makes them.

        A sale's id must be a whole number: lines are numbered in the order of these.
        """
        key = uuid.uuid4()
        ordered = sorted(wanted, key=lambda sale: int(sale.id))
        keys = [key, *(uuid.uuid5(key, str(place)) for place in range(1, len(ordered)))]
        lines = zip(ordered, keys, strict=True)
        return cls(
            str(key), tuple(Line(sale, wanted[sale], str(line_key)) for sale, line_key in lines)
        )

    def reordered(self) -> Cart:
        """The same cart with its lines in another order; it is still the same purchase."""
        return self._replace(lines=self.lines[::-1])

    @staticmethod
    def code_of(line: Line, code: str, about: str | None) -> str:
        """What an answer says about a line: a refusal names the sale that it is about."""
        return WITH_ANOTHER if about is not None and about != line.sale.id else code


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, and what the history says of it.

    Attributes:
        op: see `loadtest.history`.
        request: without the buyer's token and the key.
        key: under which it asks; empty for none.
        sale, quantity: that it is about.
        cart: that it asks for; each of its lines is a call of the history.
        order: that it is about.
        must: the HTTP status with which the shop must refuse it; 0 if it may be granted.
        token: in place of the buyer's own.
    """

    op: str
    request: Request
    key: str = ""
    sale: Sale | None = None
    quantity: int = 0
    cart: Cart | None = None
    order: str | None = None
    must: int = 0
    token: str | None = None
