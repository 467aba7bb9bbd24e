"""What a round is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loadtest.rush.release import Address, Release


class Scene(StrEnum):
    """What the buyers of a round fight for."""

    STOCK = "stock"
    VOUCHERS = "vouchers"
    CARTS = "carts"

    def units(self, units: int, buyers: int) -> int:
        """Return the stock of the sale; where it is not fought for, there is plenty."""
        return units if self is Scene.STOCK else 2 * buyers + 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A round: `units` are of the stock, or how often the voucher may be used."""

    address: Address
    scene: Scene
    units: int
    buyers: int
    release: Release = Release.LAST_BYTE
