"""What a negative control is."""

from __future__ import annotations

from dataclasses import dataclass

from lab.strategies import DEFAULT

DRAIN = 8.0
"""Seconds for the follow-up. A healthy shop needs one or two; with the outbox off it never ends."""


@dataclass(frozen=True, slots=True)
class Control:
    """One thing to switch off.

    Attributes:
        name: for the table.
        off: what is switched off.
        reddens: properties of which at least one must fail; none: all must pass.
        mix: which buyers come.
        strategy: how the sale is sold.
        limit: units a buyer may have.
        units: of stock for each buyer.
        minutes: as in the plan.
        faults: as in the plan.
        tells: whether a restock removes the sold-out hint.
        drain: seconds for the follow-up.
        lines: safeguards that are on, as in INVENTORY_FEATURE_FLAGS; empty: all.
        buyers: at once; 0: as many as were asked for.
        sabotage: what of the product is replaced, as in ``lab/proof/sabotage.py``; empty: nothing.
        environment: further variables of its shop, and their values.
        before: SQL that switches it off.
        after: SQL that switches it on again.
    """

    name: str
    off: str
    reddens: tuple[str, ...]
    mix: str = "rush"
    strategy: str = DEFAULT
    limit: int = 1
    units: float = 0.25
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    tells: bool = True
    drain: float = DRAIN
    lines: str = ""
    buyers: int = 0
    sabotage: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def shop(self) -> tuple[object, ...]:
        """What its shop is started for; those with the same share one."""
        return (self.lines, self.sabotage, self.environment, self.faults)
