"""What a proof is to show, and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.proof.load_profile import LoadProfile
from lab.strategies import CLASSES
from loadtest.faults.chaos import BETWEEN
from loadtest.roles import MAIN, OWN_ROLES, SaleTerms, roles_for, terms_of
from loadtest.steps import RunPlan, refills_of

AFTERWARDS = 12.0
"""Seconds that the buyers stay after the last fault: until the shop must have sold again on a slow
machine too, and until there are enough answers to judge the rate of good ones."""

DRAIN = 120
"""Seconds for the follow-up to come to rest."""

PAYING = frozenset({"holds", "parts", "walkers", "all"})
"""Mixes in which the payment provider misbehaves."""

PROVIDER: Mapping[str, Any] = {
    "processing": 250,
    "decline": 0.1,
    "lost": 0.05,
    "copies": 2,
    "shuffle": 400,
}
"""It takes its time, declines some, answers some not at all, repeats and shuffles its events."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be proved.

    Attributes:
        profile: which buyers come.
        stock: units.
        limit: units per buyer.
        strategy: how the sale is sold.
        minutes: that the sale lasts, restocked whenever it has run out; 0: until all buyers have
            finished, or every fault was injected once.
        faults: names of the faults to inject.
        left_out: those that cannot be injected here, and what they lack.
        drain: seconds for the follow-up to come to rest. What is open then is judged as it is.
        times: how often each fault is injected, unless the run lasts for `minutes`.
        bed: name of the test bed; empty: all is on this machine.
        restock_tells: whether a restock removes the sold-out hint; off in a negative control.
    """

    profile: LoadProfile
    stock: int
    limit: int
    strategy: str
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    drain: float = DRAIN
    restock_tells: bool = True
    times: int = 1
    bed: str = ""

    @property
    def lasts(self) -> bool:
        """Whether the sale goes on until it is stopped."""
        return bool(self.minutes or self.faults)

    @property
    def sales(self) -> dict[str, SaleTerms]:
        """The sales to open, by role; the main one comes first."""
        main = SaleTerms(self.stock, self.limit, self.strategy)
        return {role: terms_of(role, main) for role in roles_for(self.profile.mix)}

    @property
    def provider(self) -> Mapping[str, Any]:
        """How the payment provider misbehaves; not at all while faults break the shop."""
        if self.faults or self.profile.mix not in PAYING:
            return {}
        return {**PROVIDER, "seed": self.profile.seed}

    @property
    def restocks(self) -> dict[str, tuple[int, int | None]]:
        """The units of a restock and how often there is one at most, by the sale's role."""
        if self.lasts:
            # Walkers give back what they took, and know how many units their sales have.
            lasting = {r: terms for r, terms in self.sales.items() if r not in OWN_ROLES}
            return {role: (terms.stock, None) for role, terms in lasting.items()}
        refills = refills_of(self.profile.mix, self.stock)
        return {MAIN: refills} if refills else {}

    @property
    def about_seconds(self) -> float:
        """How long it will take, about; 0 if the buyers decide."""
        each = sum(BETWEEN) / 2 + 1.0
        return 60 * self.minutes or len(self.faults) * self.times * each + (
            AFTERWARDS if self.faults else 0
        )

    @property
    def of_run(self) -> RunPlan:
        """The plan as its verdict and its report tell it."""
        return RunPlan(
            strategy=self.strategy,
            mix=self.profile.mix,
            buyers=self.profile.buyers,
            stock=self.stock,
            seed=self.profile.seed,
            limit=self.limit,
            arrivals=self.profile.arrivals,
            minutes=self.minutes,
            faults=self.faults,
            left_out=tuple(self.left_out),
            bed=self.bed,
            times=self.times,
            fenced=CLASSES[self.strategy].fenced,
        )

    @property
    def repeat(self) -> str:
        """The command that repeats the proof."""
        return self.of_run.repeat
