"""What a round is about, and who follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from loadtest.calls import Report
from loadtest.release import Address, Release
from loadtest.shop import Level, Shop, Sized, Sizes

OFFERING = (Level.STOCK, Level.CANCEL)
"""Scenes that are also played with a unit for every buyer."""

SCENES = (Level.STOCK, Level.VOUCHERS, Level.CARTS, Level.CANCEL, Level.EXPIRY)
"""What the buyers of a round may fight for, give back twice, or lose when its time is over."""

FEW = (Level.STOCK, Level.CANCEL, Level.EXPIRY)
"""Scenes in which units are few."""


def size_of(
    shop: Shop, stock: int | None, buyers: int | None, rounds: int | None
) -> tuple[int, int, int]:
    """Return units, buyers and rounds of a rush: as asked for, else as the adapter proposes."""
    proposed = shop.sizes if isinstance(shop, Sized) else Sizes()
    asked = (stock, proposed.stock), (buyers, proposed.buyers), (rounds, proposed.rounds)
    units, per_round, times = (size if wanted is None else wanted for wanted, size in asked)
    return units, per_round, times


@dataclass(frozen=True, slots=True)
class Plan:
    """A round.

    Attributes:
        address: of the shop.
        scene: what the buyers fight for, or give back.
        units: of the stock, or how often the voucher may be used.
        buyers: how many meet.
        release: how their requests are sent together.
        enough: whether there is a unit for every buyer, so that nobody may be told “sold out”.
    """

    address: Address
    scene: Level
    units: int
    buyers: int
    release: Release = Release.LAST_BYTE
    enough: bool = False

    @property
    def tried(self) -> str:
        """What the round tries, in a word."""
        if self.enough:
            return "all-back" if self.scene is Level.CANCEL else "enough"
        return self.scene.value

    @property
    def tries(self) -> frozenset[Level]:
        """The levels that the round puts to the test."""
        return frozenset({Level.STOCK, Level.REPEATS, self.scene})

    @property
    def uses(self) -> int:
        """How often the voucher may be used."""
        return self.units

    @property
    def stock(self) -> int:
        """The units of the sale; where they are not fought for, there are plenty."""
        if self.enough:
            return self.buyers
        return self.units if self.scene in FEW else 2 * self.buyers + 1


@dataclass(frozen=True, slots=True)
class Observer:
    """Follows a round as it goes on; by default, ignores it.

    Attributes:
        step: called with what is done next.
        call: called with every call that is over.
    """

    step: Callable[[str], None] = lambda _: None
    call: Report = lambda _: None

    def within(self, where: Callable[[], str]) -> Self:
        """Return an observer that says at each step where it is."""
        return replace(self, step=lambda text: self.step(f"{where()}: {text}"))
