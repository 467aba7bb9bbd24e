"""The choices of the start form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadtest.steps import RunPlan
from loadtest.ui.faults import ALL, NONE, offered

# Minutes for the command that repeats a fault run of the page.
REPEATED_MINUTES = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices for a run; the attributes are those of `RunPlan`, in the form's types.

    `beside` are the ids of the further sales by their roles; `endless`: each user plays buyers
    without end.
    """

    sale: str
    strategy: str
    mix: str
    users: int
    seed: int
    arrivals: float
    limit: int = 1
    fenced: bool = False
    fault: str = NONE
    target: str = ""
    endless: bool = False
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def lasts(self) -> bool:
        """Whether buyers keep arriving until the run is stopped."""
        return self.endless or bool(self.faults)

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults to inject."""
        if self.fault == NONE:
            return ()
        if self.fault != ALL:
            return (self.fault,)
        return tuple(each for each in offered(self.target) if each not in (NONE, ALL))

    def of(self, units: int, *, mails: bool = True) -> RunPlan:
        """Return the plan of the run, in a sale with so many units, whose mails can be read."""
        return RunPlan(
            strategy=self.strategy,
            mix=self.mix,
            buyers=self.users,
            stock=units,
            seed=self.seed,
            limit=self.limit,
            arrivals=self.arrivals,
            minutes=REPEATED_MINUTES if self.faults else 0.0,
            faults=self.faults,
            fenced=self.fenced,
            mails=mails,
        )

    @property
    def loop(self) -> str:
        """How buyers arrive."""
        return self.of(0).loop

    def describe(self, units: int, *, mails: bool) -> dict[str, Any]:
        """Return the description for `judge.py`."""
        run = self.of(units, mails=mails)
        facts = run.facts(self.sale) | ({"faults": self.fault} if self.faults else {})
        return {
            "title": run.title,
            "buyers": run.buyers,
            "repeat": run.repeat,
            "not_judged": run.not_judged,
            "facts": facts,
        }
