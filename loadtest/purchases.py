"""What a buyer asks for: a purchase, or a part of an order to give back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from loadtest.sale import Sale


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
