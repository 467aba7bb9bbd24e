"""The faults of a proof."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from loadtest.faults import Chaos, Fault, Injected, Target, find
from loadtest.faults.postgres_hosts import SETTLED
from loadtest.steps import RunFiles, RunPlan

LOOK = 0.5
"""Seconds between two looks at the servers."""


class FaultRun:
    """Injects the plan's faults.

    Args:
        plan: of the proof.
        target: what faults act on; None if nothing may be broken here.
        files: of the run.

    Attributes:
        unsettled: why the servers had not recovered at the end; empty if they had.
    """

    def __init__(self, plan: RunPlan, target: Target | None, files: RunFiles) -> None:
        self._plan, self._target, self._files = plan, target, files
        self._chaos: Chaos | None = None
        self.unsettled = ""

    @contextmanager
    def open(self, sale: str) -> Iterator[None]:
        """Prepare the faults; on exit, heal the last one.

        After an error, servers on this machine are healed before they are stopped. The hosts of a
        bed are just removed.
        """
        plan = self._plan
        if not plan.faults or self._target is None:
            yield
            return
        target = replace(self._target, sale=int(sale))
        target.write(self._files.path / "target.json")
        times = 0 if plan.minutes else plan.times
        self._chaos = Chaos(plan.faults, target, plan.seed, self._files.faults, times=times)
        try:
            yield
        except BaseException:
            (self._chaos.abandon if plan.bed else self._chaos.stop)()
            raise
        self._chaos.stop()

    def begin(self) -> None:
        """Start to inject, once: the sale has opened."""
        if self._chaos is not None and not self._chaos.started:
            self._chaos.start()

    def is_over(self, since: float) -> bool:
        """Whether the planned time is up, `since` seconds after the opening, and all is healed."""
        plan, chaos = self._plan, self._chaos
        if plan.minutes and since < 60 * plan.minutes:
            return False
        if chaos is None:
            return True
        if plan.minutes:
            chaos.end()
        return chaos.done

    @property
    def current(self) -> Fault | None:
        """The fault of this moment."""
        return self._chaos.current if self._chaos else None

    @property
    def injected(self) -> list[Injected]:
        """The faults that were injected."""
        return self._chaos.injected if self._chaos else []

    @property
    def failed(self) -> list[Injected]:
        """The faults that could not be injected or healed."""
        return self._chaos.failed if self._chaos else []

    def wait_until_settled(self) -> None:
        """Wait until the servers have recovered from all faults, for a while at most."""
        deadline = time.monotonic() + SETTLED
        while reason := self._unsettled():
            if time.monotonic() > deadline:
                self.unsettled = reason
                return
            time.sleep(LOOK)

    def _unsettled(self) -> str:
        """Return why a server has not recovered; empty if all have."""
        if self._target is None:
            return ""
        reasons = {find(name).unsettled(self._target) for name in self._plan.faults}
        return "; ".join(sorted(reasons - {""}))

    def shortcoming(self) -> str:
        """Why the faults prove nothing; empty if all happened as planned."""
        problems = [f"{each.fault}: {each.error}" for each in self.failed if not each.healed]
        if self._chaos is not None and not self._plan.minutes:
            injected = Counter(each.fault for each in self.injected)
            missing = {name for name in self._plan.faults if injected[name] < self._plan.times}
            problems += [
                f"{each.fault}: {each.error}" for each in self.failed if each.fault in missing
            ]
        shortcomings = [f"not injected: {'; '.join(problems)}"] if problems else []
        if self.unsettled:
            shortcomings.append(f"not recovered at the end: {self.unsettled}")
        return "; ".join(shortcomings)
