"""One run of the page."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
import msgspec
from gevent.event import Event

from loadtest.checker import Broken, Verdict
from loadtest.checker.snapshot import Item
from loadtest.conduct import SaleRun
from loadtest.files import RunFolder
from loadtest.report import Story, document
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import RunPlan
from loadtest.ui import faults
from loadtest.ui.judge import SO_FAR, Wanted

logger = logging.getLogger(__name__)

# Seconds between two judgements, at least. Long ones come four times their length apart, so that
# judging a large history does not become a load.
PAUSE = 2.0
SPARED = 4

# Seconds that one may take.
PATIENCE = 60.0

_FOUND = msgspec.json.Decoder(list[Broken])


def _judge(folder: RunFolder, *more: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Judge in a process of its own. Raises `TimeoutExpired`."""
    return subprocess.run(
        [sys.executable, "-m", "loadtest.ui.judge", str(folder.path), *more],
        cwd=Path(__file__).resolve().parents[2],
        timeout=seconds,
        capture_output=True,
        text=True,
        check=False,
    )


# Minimum seconds between looks at the shop. A slower look makes the pause as long, so that looking
# does not become a load.
LOOK = 1.0
# Seconds that judging may take.
JUDGING = 600.0

RUNNING, SETTLING, JUDGING_NOW, JUDGED = "running", "settling", "judging", "judged"


class PageRun(SaleRun):
    """One run, as far as it is known. Runs share no state.

    Attributes:
        phase: the current step.
        broken: the properties that are known to be broken before the verdict.
        verdict: None until there is one.
    """

    pause = LOOK
    files: RunFolder

    def __init__(
        self,
        plan: RunPlan,
        shop: DemoShop,
        files: RunFolder,
        recorded: Callable[[], list[str]] = list,
    ) -> None:
        """`recorded` names the histories of the load-generating processes, as far as known."""
        super().__init__(plan, shop, files)
        self.phase = RUNNING
        self.verdict: dict[str, Any] | None = None
        self.broken: list[Broken] = []
        self._recorded = recorded
        self._processes = 1
        self._load_ended = Event()

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; until then, the phase."""
        return str(self.verdict["verdict"]) if self.verdict else self.phase

    def end_load(self, processes: int) -> None:
        """Record that the buyers of this many load-generating processes have left."""
        self.phase, self._processes = SETTLING, processes
        self._find_histories()
        self._load_ended.set()

    # --- steps --------------------------------------------------------------------------------

    def open(self) -> None:
        """Read the sale before any buyer acts."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
            super().open()
        except ShopRefused as error:
            self.reason = f"the shop shows no figures: {error}"
            return
        self.plan = replace(self.plan, stock=self.figures["total"])
        if self.figures["purchases"]:
            self.reason = (
                f"sale {self.plan.sale} has purchases from before this run, which are not in its "
                "history. Choose a fresh sale to get a verdict."
            )

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Inject the chosen faults until the load has ended."""
        plan = self.plan
        if not plan.faults:
            yield
            return
        log = self.files.faults
        injecting = faults.start(plan.faults, plan.target, plan.sale, plan.seed, log)
        try:
            yield
        finally:
            self.reason = faults.stop(injecting) or self.reason

    def watch(self) -> None:
        """Watch the shop, and judge what is certain already, until the load has ended."""
        judging = gevent.spawn(self._judge_again_and_again)
        try:
            while self.phase == RUNNING:
                began = time.monotonic()
                if self.look():
                    self.during.add([item_of(self.figures)], time.monotonic_ns())
                self._load_ended.wait(max(LOOK, time.monotonic() - began))
        finally:
            judging.kill()

    def judge_so_far(self) -> None:
        """Judge once while the run goes on; what was broken stays so."""
        self._describe()
        try:
            done = _judge(self.files, SO_FAR, seconds=PATIENCE)
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0:
            self.broken = _FOUND.decode(done.stdout) or self.broken
        elif done.stderr:
            logger.warning("Not judged at this moment: %s", done.stderr.strip())

    def judge(self) -> None:
        """Let a separate process judge the run, so that the page keeps responding."""
        missing = self._processes - len(self.files.elsewhere)
        if missing > 0:
            self.reason = self.reason or (
                f"the history of {missing} of {self._processes} load-generating processes is not "
                "on this machine"
            )
        self.phase = JUDGING_NOW
        self._describe()
        self.verdict = self._verdict()
        self.reason = str(self.verdict["reason"])

    def report(self) -> None:
        """Show the verdict; its process has written the report."""
        self.phase = JUDGED

    # --- parts of steps -----------------------------------------------------------------------

    def _judge_again_and_again(self) -> None:
        # Where it is known that there will be no verdict, nothing is broken either.
        while not self.reason:
            began = time.monotonic()
            self.judge_so_far()
            gevent.sleep(max(PAUSE, SPARED * (time.monotonic() - began)))

    def _find_histories(self) -> None:
        """Find the histories of the buyers that are on this machine, whatever their folder."""
        self.files.elsewhere = [path for path in map(Path, self._recorded()) if path.exists()]

    def _describe(self) -> None:
        """Write what is to be judged, and how."""
        if self.phase == RUNNING:
            self._find_histories()
        wanted = Wanted(self.plan, list(map(str, self.files.elsewhere)), self.reason)
        self.files.describe(msgspec.to_builtins(wanted))

    def _verdict(self) -> dict[str, Any]:
        try:
            done = _judge(self.files, seconds=JUDGING)
            problem = done.stderr.strip().splitlines()[-1:] or [""]
        except subprocess.TimeoutExpired:
            problem = [f"judging took more than {JUDGING:.0f} s"]
        found = self.files.verdict()
        if found is None:
            story = Story(self.plan.title, self.plan.repeat)
            reason = f"the judge did not finish: {problem[0]}"
            found = document(story, Verdict(reason=reason), None, self.files)
        return found


def item_of(figures: dict[str, Any]) -> Item:
    """Read the stock that the figures show."""
    names = ("total", "available", "held", "confirmed", "ledger_sum", "fence")
    return Item(str(figures["item"]), **{name: figures[name] for name in names})
