"""Calls that are over, as Locust is told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Finished(NamedTuple):
    """A call that is over, for Locust.

    Attributes:
        op: what was asked.
        outcome: see `loadtest.history`.
        name: with the answer, such as `order: sold_out`.
        milliseconds: that it took.
        length: of the answer's body, in bytes.
        problem: what is wrong with the answer; None if a healthy shop may give it.
    """

    op: str
    outcome: str
    name: str
    milliseconds: float
    length: int
    problem: Exception | None


Report = Callable[[Finished], None]


class UnexpectedAnswer(Exception):
    """An answer that a healthy shop does not give."""
