"""The faults of a proof, and the restocks that keep its sales going."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from lab.proof.plan import Plan
from lab.proof.restock import Restocker
from loadtest.faults import Chaos, Fault, Injected, Target
from loadtest.orchestrator import RunFiles
from loadtest.roles import MAIN
from shop.catalogue.models import Sale


class FaultRun:
    """Injects the plan's faults and restocks its sales.

    Args:
        plan: of the proof.
        target: what faults act on; None if nothing may be broken here.
        files: of the run.
    """

    def __init__(self, plan: Plan, target: Target | None, files: RunFiles) -> None:
        self._plan, self._target, self._files = plan, target, files
        self._chaos: Chaos | None = None
        self._restockers: list[Restocker] = []

    @contextmanager
    def open(self, sales: Mapping[str, Sale]) -> Iterator[None]:
        """Restock these sales if they have to last; on exit, heal the last fault."""
        plan = self._plan
        with ExitStack() as cleanup:
            for role, (units, most) in plan.restocks.items():
                restocker = Restocker(
                    sales[role], units, self._files.path, tells=plan.restock_tells, most=most
                )
                restocker.start()
                cleanup.callback(restocker.stop)
                self._restockers.append(restocker)
            if plan.faults and self._target is not None:
                target = replace(self._target, sale=sales[MAIN].pk)
                target.write(self._files.path / "target.json")
                self._chaos = Chaos(
                    plan.faults,
                    target,
                    plan.profile.seed,
                    self._files.faults,
                    times=0 if plan.minutes else plan.times,
                )
                cleanup.callback(self._chaos.stop)
            yield

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

    def look(self) -> Fault | None:
        """The fault of this moment; keeps the sales stocked while it needs a shop that sells."""
        fault = self._chaos.current if self._chaos else None
        for restocker in self._restockers:
            restocker.plenty = fault is not None and fault.wants_stock
        return fault

    @property
    def restocked(self) -> int:
        """The number of restocks so far."""
        return sum(each.times for each in self._restockers)

    @property
    def injected(self) -> list[Injected]:
        """The faults that were injected."""
        return self._chaos.injected if self._chaos else []

    @property
    def failed(self) -> list[Injected]:
        """The faults that could not be injected or healed."""
        return self._chaos.failed if self._chaos else []

    def shortcoming(self) -> str:
        """Why the faults prove nothing; empty if all happened as planned."""
        problems = [f"{each.fault}: {each.error}" for each in self.failed if not each.healed]
        if self._chaos is not None and not self._plan.minutes:
            injected = Counter(each.fault for each in self.injected)
            missing = {name for name in self._plan.faults if injected[name] < self._plan.times}
            problems += [
                f"{each.fault}: {each.error}" for each in self.failed if each.fault in missing
            ]
        return f"not injected: {'; '.join(problems)}" if problems else ""
