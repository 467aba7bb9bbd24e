"""One run of Locust's users that Locust's page follows, or Locust without its page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import gevent
from gevent.event import AsyncResult, Event

from loadtest.address import RunImpossible
from loadtest.calls import Tally
from loadtest.checker import Broken, Verdict
from loadtest.checker.judging import write_verdict
from loadtest.checker.report.headline import counted
from loadtest.faults import process
from loadtest.files import RunFolder
from loadtest.full_shop import FullShop
from loadtest.judge_process import broken_so_far, judge_apart
from loadtest.mix.plan import MixPlan
from loadtest.mix.sale import MixSale
from loadtest.run import Faults, Load, ShopUnderTest, Show, run
from loadtest.run_plan import RunPlan
from loadtest.sales import ASKING_AGAIN, FOLLOWING_UP, JUDGING, READING, Sales
from loadtest.shop import Shop
from loadtest.without_books import WithoutBooks

logger = logging.getLogger(__name__)

# Seconds between two judgements, at least. Long ones come four times their length apart, so that
# judging a large history does not become a load.
PAUSE = 2.0
SPARED = 4

# Minimum seconds between looks at the shop. A slower look makes the pause as long, so that looking
# does not become a load.
LOOK = 1.0

RUNNING, SETTLING, JUDGING_NOW, JUDGED = "running", "settling", "judging", "judged"

PHASES = {
    FOLLOWING_UP: SETTLING,
    ASKING_AGAIN: SETTLING,
    READING: SETTLING,
    JUDGING: JUDGING_NOW,
}
"""Of the steps of a run, those after its load."""


class LocustUsers(Load):
    """The users of this Locust, who come by themselves once the sales are open.

    Attributes:
        opened: resolved when the sales are open.
        ended: set when the users have left.
    """

    def __init__(self) -> None:
        self.opened = AsyncResult()
        self.ended = Event()
        self._looked = time.monotonic()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let them come."""
        self.opened.set(None)
        yield

    def running(self) -> bool:
        """Return whether they have not left."""
        return not self.ended.is_set()

    def wait(self) -> None:
        """Wait until it is time to look at the shop again, or until they leave."""
        took = time.monotonic() - self._looked
        self.ended.wait(max(LOOK, took))
        self._looked = time.monotonic()


class PageFaults(Faults):
    """The chosen faults, injected by a process of its own until the load has ended.

    Args:
        sales: of the run.
    """

    def __init__(self, sales: Sales) -> None:
        self._sales = sales

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Inject the faults; on exit, heal the last one."""
        plan, log = self._sales.plan, self._sales.files.faults
        if not plan.faults:
            yield
            return
        injecting = process.start(plan.faults, plan.target, plan.sale, plan.seed, log)
        try:
            yield
        finally:
            self._sales.reason = process.stop(injecting) or self._sales.reason


class PageRun(Show):
    """One run, as far as it is known. Runs share no state.

    Args:
        plan: of the run.
        shop: that sells: with all levels, or any that has an adapter.
        files: of the run.
        recorded: names the histories of the load-generating processes, as far as known.
        leave: called when the run is over.
        tally: counts what the buyers of all processes did.

    Attributes:
        sales: of the run.
        phase: the current step.
        broken: the properties that are known to be broken before the verdict.
        verdict: None until there is one.
    """

    def __init__(
        self,
        plan: RunPlan | MixPlan,
        shop: FullShop | Shop,
        files: RunFolder,
        recorded: Callable[[], list[str]] = list,
        leave: Callable[[], None] = lambda: None,
        tally: Callable[[], Tally] = Tally,
    ) -> None:
        self.files, self.phase = files, RUNNING
        self.sales = _sales_of(plan, shop, files, self)
        self.verdict: dict[str, Any] | None = None
        self.broken: list[Broken] = []
        self._recorded, self._leave = recorded, leave
        self._tally, self._came = tally, Tally()
        self._processes = 1
        self._load = LocustUsers()

    @property
    def plan(self) -> RunPlan | MixPlan:
        """The plan of the run; with the ids of its sales when they are open."""
        return self.sales.plan

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of the main sale, at the last look that was answered."""
        return self.sales.figures

    @property
    def read_at(self) -> float:
        """When the figures were read, in seconds on the monotonic clock."""
        return self.sales.read_at

    @property
    def reason(self) -> str:
        """Why there is no verdict; empty if there may be one."""
        return str(self.verdict.get("reason", "")) if self.verdict else self.sales.reason

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; until then, the phase."""
        return str(self.verdict["verdict"]) if self.verdict else self.phase

    def start(self) -> None:
        """Begin to run in the meantime, and return when the sales are open.

        Raises what keeps them from it.
        """
        gevent.spawn(self._run)
        self._load.opened.get()

    def end_load(self, processes: int) -> None:
        """Record that the buyers of this many load-generating processes have left."""
        self.phase, self._processes, self._came = SETTLING, processes, self._tally()
        self._find_histories()
        self._load.ended.set()

    # --- as the run goes on -------------------------------------------------------------------

    def step(self, step: str, seconds: float = 0.0, pending: int = 0) -> None:
        """Show what is done now."""
        self.phase = PHASES.get(step, self.phase)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Judge what is certain already, again and again."""
        judging = gevent.spawn(self._judge_again_and_again)
        try:
            yield
        finally:
            judging.kill()

    def judge(self, shop: ShopUnderTest[Any]) -> Verdict:
        """Let a separate process judge the run, so that the page keeps responding."""
        self.step(JUDGING)
        missing = self._processes - len(self.files.elsewhere)
        if missing > 0:
            self.sales.reason = self.sales.reason or (
                f"the history of {missing} of {self._processes} load-generating processes did not "
                "arrive"
            )
        return judge_apart(
            self.files,
            self.plan,
            self.sales.reason,
            self.sales.look_command,
            stopped=self._stopped(),
            left_open=[*self._left_open()],
        )

    def judge_so_far(self) -> None:
        """Judge once while the run goes on; what was broken stays so."""
        if self.phase == RUNNING:
            self._find_histories()
        found, problem = broken_so_far(self.files, self.plan)
        self.broken = found or self.broken
        if problem:
            logger.warning("Not judged at this moment: %s", problem)

    def _stopped(self) -> str:
        """Say what had been done when the run was ended early; empty if it was not."""
        finished, users = self._came.finished, self.plan.buyers
        if self.plan.lasts or finished >= users:
            return ""
        return (
            f"The run was stopped early: {finished:,} of {counted(users, 'user')} had played all "
            "their buyers. The verdict is on what was done until then."
        )

    def _left_open(self) -> Iterator[str]:
        """Yield what the load was too small to show."""
        late, unstarted = self._came.late, self._came.unstarted
        if late or unstarted:
            yield (
                f"how the shop serves {self.plan.arrivals:g} buyers per second: {late:,} began "
                f"late and {unstarted:,} not at all, since every user was busy; take more users"
            )

    def _run(self) -> None:
        sales: ShopUnderTest[Any] = self.sales
        faults = PageFaults(self.sales) if isinstance(self.sales, Sales) else Faults()
        try:
            run(self.plan, sales, self._load, faults, self)
        except Exception as error:
            if not self._load.opened.ready():
                self._load.opened.set_exception(error)
                return
            reason = str(error)
            if not isinstance(error, RunImpossible):
                logger.exception("The run cannot be judged")
                reason = f"{type(error).__name__}: {error}"
            verdict, description = Verdict(reason=reason), self.plan.describe(reason, "")
            write_verdict(self.files, description, verdict, self.files.report)
        finally:
            self._leave()
        self.verdict = self.files.verdict()
        self.phase = JUDGED

    def _judge_again_and_again(self) -> None:
        # Where it is known that there will be no verdict, nothing is broken either.
        while not self.sales.reason:
            began = time.monotonic()
            self.judge_so_far()
            gevent.sleep(max(PAUSE, SPARED * (time.monotonic() - began)))

    def _find_histories(self) -> None:
        """Find the histories of the buyers that are on this machine, whatever their folder."""
        self.files.elsewhere = [path for path in map(Path, self._recorded()) if path.exists()]


def _sales_of(
    plan: RunPlan | MixPlan, shop: FullShop | Shop, files: RunFolder, show: Show
) -> Sales | MixSale:
    """Return what a run sells, as far as its load test can see into the shop."""
    if isinstance(plan, MixPlan):
        return MixSale(cast(Shop, shop), plan, files, show)
    full = cast(FullShop, shop)
    sales = (Sales if full.has_books else WithoutBooks)(full, files, show)
    sales.plan, sales.pause = plan, LOOK
    return sales
