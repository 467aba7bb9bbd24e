"""The runs that Locust's page follows: the current or last one, and earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loadtest.calls import Tally
from loadtest.files import Runs
from loadtest.full_shop import FullShop
from loadtest.mix.plan import MixPlan
from loadtest.run_plan import RunPlan
from loadtest.shop import Shop
from loadtest.ui.run import RUNNING, PageRun
from loadtest.ui.rush_run import Rush, RushRun


class Referee:
    """The current or last run, and earlier ones.

    Args:
        runs: the stored runs.
        tallies: counts of each load-generating process.

    Attributes:
        run: the current or last run.
        starts: whether a run is being prepared.
        problem: why the last run could not start; empty if it did.
        collected: names the histories that workers have sent.
    """

    def __init__(self, runs: Runs, tallies: Callable[[], list[Tally]]) -> None:
        self.runs = runs
        self.problem = ""
        self.starts = False
        self.run: PageRun | RushRun | None = None
        self.collected: Callable[[], list[str]] = list
        self._tallies = tallies

    @property
    def tally(self) -> Tally:
        """Return the sum over all processes."""
        return Tally.sum(self._tallies())

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Prepare a run inside the block."""
        self.starts = True
        try:
            yield
        finally:
            self.starts = False

    def forget(self) -> None:
        """Show nothing of the last run any more: another one is about to start."""
        self.problem, self.run = "", None

    def follow(
        self,
        plan: RunPlan | MixPlan,
        shop: FullShop | Shop,
        leave: Callable[[], None] = lambda: None,
    ) -> PageRun:
        """Start a run and follow it from now on. Raises what keeps its sales from being open.

        `leave` is called when the run is over.
        """
        self.problem = ""
        started = PageRun(
            plan,
            shop,
            self.runs.new(),
            recorded=self._histories,
            leave=leave,
            tally=lambda: self.tally,
        )
        started.start()
        self.run = started
        return started

    def follow_rush(self, rush: Rush) -> RushRun:
        """Follow a rush on a shop from now on."""
        self.problem, self.run = "", RushRun(rush, self.runs.new())
        return self.run

    def end(self, processes: int) -> None:
        """Let the run be judged; this many load-generating processes took part."""
        # A rush ends by itself.
        if isinstance(self.run, PageRun) and self.run.phase == RUNNING:
            self.run.end_load(processes)

    def _histories(self) -> list[str]:
        return [*(tally.history for tally in self._tallies() if tally.history), *self.collected()]
