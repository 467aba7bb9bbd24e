"""A cart: several sales in one request, all or nothing. In the history, one purchase a line."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from loadtest.purchases import Sale
from loadtest.shops.flash_sale.answers import Answer

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
        return cls(str(key), tuple(Line(sale, wanted[sale], str(each)) for sale, each in lines))

    def reordered(self) -> Cart:
        """The same cart with its lines in another order; it is still the same purchase."""
        return self._replace(lines=self.lines[::-1])

    def code_of(self, line: Line, answer: Answer) -> str:
        """What an answer says about a line: a refusal names the one that it is about."""
        about = answer.about
        return WITH_ANOTHER if about is not None and about != line.sale.id else answer.code
