"""What a run is to show: the properties that apply, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadtest.checker import Need, not_judged
from loadtest.faults import FAULTS
from loadtest.shop import Level
from loadtest.shops.flash_sale import LEVELS

# Mixes whose buyers fill carts, ask for orders of others, and have sales to themselves.
WITH_CARTS = frozenset({"carts", "all"})
WITH_PEEPERS = frozenset({"peepers", "all"})
WITH_WALKERS = frozenset({"walkers", "all"})


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run: what is sold to whom, what is broken meanwhile, and what it can be judged by.

    Attributes:
        strategy: how the sale is sold.
        mix: which buyers come.
        buyers: at once.
        stock: units.
        seed: repeats the buyers' behaviour and the faults.
        limit: units per buyer.
        arrivals: buyers per second in an open loop; 0 for a closed loop.
        minutes: that the sale lasts; 0 until all buyers have finished.
        faults: names of the faults to inject.
        left_out: names of faults that cannot be injected here.
        times: how often each fault is injected.
        bed: name of the test bed; empty: all is on one machine.
        fenced: whether the strategy uses fencing tokens.
        mails: whether the mails that the shop sends are received.
        levels: that the shop offers.
        sale: id of the main sale; empty where it is not open yet.
        beside: ids of the further sales, by their roles.
        target: file that says what faults act on; empty: none.
        endless: whether each user plays buyers without end.
    """

    strategy: str
    mix: str
    buyers: int
    stock: int
    seed: int
    limit: int = 1
    arrivals: float = 0.0
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    times: int = 1
    bed: str = ""
    fenced: bool = False
    mails: bool = True
    levels: frozenset[Level] = LEVELS
    sale: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    endless: bool = False

    @property
    def lasts(self) -> bool:
        """Whether buyers keep arriving until the run is stopped."""
        return self.endless or bool(self.minutes or self.faults)

    @property
    def not_judged(self) -> dict[str, str]:
        """The properties that such a run says nothing about, and why not."""
        has = {
            Need.SOLD_OUT: True,
            Need.PROMISES: True,
            Need.FENCING: self.fenced,
            Need.FAULTS: bool(self.faults),
            Need.CARTS: self.mix in WITH_CARTS,
            Need.PEEPERS: self.mix in WITH_PEEPERS,
            Need.MAILS: self.mails,
            Need.WALKERS: self.mix in WITH_WALKERS,
        }
        return not_judged(self.levels, [need for need, there in has.items() if there])

    @property
    def title(self) -> str:
        """The run in one line."""
        return f"{self.buyers:,} buyers, {self.stock:,} units, strategy {self.strategy}"

    @property
    def loop(self) -> str:
        """How buyers arrive."""
        return f"open loop, {self.arrivals:g} buyers/s" if self.arrivals else "closed loop"

    @property
    def repeat(self) -> str:
        """The command that repeats the run."""
        arguments = (
            f"--buyers {self.buyers} --stock {self.stock} --limit {self.limit} "
            f"--strategy {self.strategy} --mix {self.mix} --seed {self.seed}"
        )
        if self.arrivals:
            arguments += f" --arrivals {self.arrivals:g}"
        if self.minutes:
            arguments += f" --minutes {self.minutes:g}"
        if self.times > 1:
            arguments += f" --times {self.times}"
        if self.bed:
            arguments += f" --bed {self.bed}"
        if {*self.faults, *self.left_out} == set(FAULTS):
            arguments += " --faults all"
        else:
            arguments += "".join(f" --fault {name}" for name in self.faults)
        return f'make prove ARGS="{arguments}"'

    def facts(self, sale: str) -> dict[str, Any]:
        """What the head of the report says."""
        faults = {"faults": ", ".join(self.faults)} if self.faults and self.sale else {}
        return {
            "sale": sale,
            "strategy": self.strategy,
            "buyers": f"{self.mix}, {self.loop}",
            "seed": self.seed,
            **faults,
        }
