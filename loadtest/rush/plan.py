"""What a round is about, and who follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loadtest.finished import Report
from loadtest.rush.release import Address, Release
from loadtest.shop import Level

if TYPE_CHECKING:
    from loadtest.rush.result import RushResult

SCENES = (Level.STOCK, Level.VOUCHERS, Level.CARTS, Level.CANCEL)
"""What the buyers of a round may fight for, or give back twice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A round: `units` are of the stock, or how often the voucher may be used."""

    address: Address
    scene: Level
    units: int
    buyers: int
    release: Release = Release.LAST_BYTE

    @property
    def stock(self) -> int:
        """The units of the sale; where they are not fought for, there are plenty."""
        return self.units if self.scene in (Level.STOCK, Level.CANCEL) else 2 * self.buyers + 1


@dataclass(frozen=True, slots=True)
class Observer:
    """Follows a rush as it goes on; by default, ignores it.

    Attributes:
        step: called with what is done next.
        round: called after each round with the result so far.
        call: called with every call that is over.
    """

    step: Callable[[str], None] = lambda _: None
    round: Callable[[RushResult], None] = lambda _: None
    call: Report = lambda _: None

    def within(self, where: Callable[[], str]) -> Observer:
        """Return an observer that says at each step where it is."""
        return replace(self, step=lambda text: self.step(f"{where()}: {text}"))
