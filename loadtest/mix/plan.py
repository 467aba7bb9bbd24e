"""What a run of a mix is to show: the shop, its buyers, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtest.checker.report import Description
from loadtest.checker.report.headline import HOLDS, counted
from loadtest.shop import Level

RUSH, BUYERS = "rush", "buyers"
"""What may come to a shop that is named by its adapter: all buyers at one moment, or this mix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPlan:
    """A run.

    Attributes:
        adapter: its name, or path.to:Adapter.
        host: the shop's address.
        stock: units of the sale.
        buyers: users, each of whom plays one buyer after the other.
        rounds: the buyers that each user plays; 0: without end.
        seed: repeats the buyers' choices.
        arrivals: buyers per second of an open loop; 0: a closed loop.
        weights: of behaviours, in place of the usual ones.
        owned: whether the host may be another machine.
        hosted: whether the shop runs for this run only, so that no command repeats it.
        tries: the levels that the buyers put to the test; known when the sale is open.
        sale: id of the sale; empty until it is open.
        not_judged: the properties that the run says nothing about, as far as known, and why not.
        doubt: why a run that broke nothing says nothing; empty if it does.
        remarks: what the reader should know besides, in sentences.
        came: buyers who came; known at the end.
        left_open: what the run could not have seen at all, in phrases.
        more: further members of the verdict's document.
    """

    adapter: str
    host: str
    stock: int
    buyers: int
    rounds: int = 1
    seed: int = 1
    arrivals: float = 0.0
    weights: Mapping[str, int] = field(default_factory=dict)
    owned: bool = False
    hosted: bool = False
    tries: frozenset[Level] = frozenset({Level.STOCK})
    sale: str = ""
    not_judged: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""
    remarks: Sequence[str] = ()
    came: int = 0
    left_open: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    mix = BUYERS
    faults: Sequence[str] = ()

    @property
    def uses(self) -> int:
        """How many orders may use the voucher: fewer than there are units."""
        return max(1, self.stock // 4)

    @property
    def lasts(self) -> bool:
        """Whether buyers keep coming until the run is stopped."""
        return self.rounds == 0

    @property
    def first(self) -> int:
        """The buyers that are made before the run: all of them, or one per user."""
        return self.buyers * max(1, self.rounds)

    @property
    def how(self) -> dict[str, Any]:
        """How it is judged: further arguments of the checker."""
        return {"enough": {"ok": 1}, "allows_errors": True}

    @property
    def loop(self) -> str:
        """How buyers arrive."""
        return f"open loop, {self.arrivals:g} buyers/s" if self.arrivals else "closed loop"

    @property
    def title(self) -> str:
        """The run in one line."""
        size = f"{counted(self.buyers, 'user')}, {counted(self.stock, 'unit')}"
        return f"{size}, {self.adapter}"

    @property
    def repeat(self) -> str:
        """The command that repeats the run; empty if there is none."""
        if self.hosted:
            return ""
        words = (
            "python -m loadtest --headless --until-done "
            f"--shop {self.adapter} --host {self.host} --mix {self.mix} "
            f"--users {self.buyers} --stock {self.stock} --rounds {self.rounds} --seed {self.seed}"
        )
        if self.arrivals:
            words += f" --arrivals {self.arrivals:g}"
        if self.weights:
            named = ",".join(f"{name}={weight}" for name, weight in self.weights.items())
            words += f" --weights {named}"
        return words + (" --i-own-this-host" if self.owned else "")

    def describe(self, reason: str, look: str) -> Description:
        """Return what the files of the run do not say.

        Args:
            reason: why there can be no verdict; empty if there may be one.
            look: a command that shows the books of the sale; empty if none is known.
        """
        return Description(
            self.title,
            self.repeat,
            {"sale": self.sale, "buyers": f"{self.mix}, {self.loop}", "seed": self.seed},
            reason,
            self.came or self.buyers,
            passed=HOLDS,
            look=look,
            remarks=self.remarks,
            left_open=self.left_open,
        )
