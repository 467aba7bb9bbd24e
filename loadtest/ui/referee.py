"""Follow the page's runs from start to verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gevent

from loadtest.files import RunFolder, Runs
from loadtest.finished import Tally
from loadtest.report.headline import headline, why_not
from loadtest.shops.flash_sale.demo import DemoShop
from loadtest.steps import RunPlan
from loadtest.ui.run import JUDGED, JUDGING_NOW, RUNNING, PageRun
from loadtest.ui.rush_run import Rush, RushRun


class Referee:
    """The current or last run, and earlier ones.

    Args:
        runs: the stored runs.
        tallies: counts of each load-generating process.

    Attributes:
        run: the current or last run.
        problem: why the last run could not start; empty if it did.
    """

    def __init__(self, runs: Runs, tallies: Callable[[], list[Tally]]) -> None:
        self.runs = runs
        self.problem = ""
        self.run: PageRun | RushRun | None = None
        self._tallies = tallies

    @property
    def tally(self) -> Tally:
        """Return the sum over all processes."""
        return Tally.sum(self._tallies())

    def follow(self, plan: RunPlan, shop: DemoShop) -> RunFolder:
        """Follow a run from now on; return the folder for its history."""
        self.problem, folder = "", self.runs.new()
        self.run = PageRun(plan, shop, folder, recorded=self._histories)
        self.run.open()
        gevent.spawn(self.run.conduct)
        return folder

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
        return [each.history for each in self._tallies() if each.history]


# Seconds between two looks at a run that is not judged yet.
LOOK = 0.2
# Violations shown of a property; the report has all.
EXAMPLES = 3
WAITING = {JUDGING_NOW: "Comparing every answer with the database."}


def conclusion(run: PageRun | RushRun) -> Iterator[str]:
    """Wait until a run is judged; say what it waits for, then every property and the verdict."""
    said = ""
    while run.phase != JUDGED:
        waiting = WAITING.get(run.phase, "Waiting for mails, payments and expiries.")
        if waiting != said:
            said = waiting
            yield said
        gevent.sleep(LOOK)
    verdict = run.verdict or {}
    for each in verdict.get("properties", []):
        yield f"{each['id']:>4}  {each['verdict'].upper():<8}{each['name']}: {each['detail']}"
        yield from (f"{'':14}{example}" for example in each["evidence"][:EXAMPLES])
    yield from why_not(verdict.get("not_judged", {}))
    reason = f": {run.reason}" if run.reason else ""
    counts = verdict.get("counts", {})
    parts = headline(run.outcome, 0, counts, speed=None, faults=0)
    yield verdict.get("headline", " · ".join(parts)) + reason
