"""One run of the page, or a sale without a run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from gevent.event import Event

from loadtest.checker import Broken
from loadtest.checker.snapshot import Terms
from loadtest.conduct import Books, Conductor
from loadtest.roles import TIMED
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import (
    Restocks,
    RunPlan,
    Schedule,
    opening_of,
    refills_of,
)
from loadtest.ui.faults import Breaker
from loadtest.ui.judge import Asked
from loadtest.ui.live import LiveJudge
from loadtest.ui.runs import RunFolder

# Minimum seconds between looks at the shop. A slower look makes the pause as long, so that looking
# does not become a load.
LOOK = 1.0
# Seconds that judging may take.
JUDGING = 600.0

IDLE, RUNNING, SETTLING, JUDGING_NOW, JUDGED = "idle", "running", "settling", "judging", "judged"


class PageRun(Conductor):
    """One run, as far as it is known. Runs share no state.

    Attributes:
        plan: of the run; its stock is that of the sale, as soon as it was looked at.
        shop: its API.
        folder: of the run's files; None for a sale that is only shown.
        phase: the current step.
        figures: of the sale, at the last look that was answered.
        answers: whether the last look was answered.
        live: judges what is certain before the end; None for a sale that is only shown.
        before: counters of the shop's processes when the run began.
        verdict: None until there is one.
        reason: why there is no verdict.
    """

    patience = 120.0
    pause = LOOK

    def __init__(
        self,
        plan: RunPlan,
        shop: DemoShop,
        folder: RunFolder | None,
        phase: str = RUNNING,
        figures: dict[str, Any] | None = None,
        recorded: Callable[[], list[str]] = list,
    ) -> None:
        """`recorded` names the histories of the load-generating processes, as far as known."""
        self.plan, self.shop, self.folder, self.phase = plan, shop, folder, phase
        if folder is not None:
            self.files = folder
        self.figures: dict[str, Any] = figures or {}
        self.before: dict[str, float] = self.figures.get("counters", {})
        self.answers = True
        self.verdict: dict[str, Any] | None = None
        self.reason = ""
        self.live = LiveJudge(folder, self._so_far) if folder is not None else None
        self._recorded = recorded
        self._processes = 1
        self._histories: list[str] = []
        self._restocks: Restocks | None = None
        self._terms: dict[str, Terms] = {}
        self._schedule: Schedule | None = None
        self._load_ended = Event()

    @property
    def number(self) -> int:
        """The run's number; 0 for a sale without a run."""
        return self.folder.number if self.folder else 0

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; until then, the phase."""
        return str(self.verdict["verdict"]) if self.verdict else self.phase

    @property
    def broken(self) -> list[Broken]:
        """The properties that are known to be broken before the verdict."""
        return self.live.broken if self.live else []

    def counted(self, name: str) -> float:
        """Return a counter of the shop's processes since the run began."""
        now = self.figures.get("counters", {}).get(name, 0)
        return max(0.0, float(now - self.before.get(name, 0)))

    def end_load(self, histories: list[str], processes: int) -> None:
        """Record that the buyers have left, with their histories and number of processes."""
        self.phase = SETTLING
        self._histories, self._processes = histories, processes
        self._load_ended.set()

    # --- steps --------------------------------------------------------------------------------

    def open(self) -> None:
        """Read the sale before any buyer acts."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
            for sale in (self.plan.sale, *self.plan.beside.values()):
                self._terms[sale] = self.shop.change(sale)
        except ShopRefused as error:
            self.reason = f"the shop shows no figures: {error}"
            return
        self.before = self.figures["counters"]
        self.plan = replace(self.plan, stock=self.figures["total"])
        if self.figures["purchases"]:
            self.reason = (
                f"sale {self.plan.sale} has purchases from before this run, which are not in its "
                "history. Choose a fresh sale to get a verdict."
            )

    @contextmanager
    def load(self) -> Iterator[None]:
        """Take a sale through its changes; Locust itself starts and stops the buyers."""
        opened = self._terms.get(self.plan.beside.get(TIMED, ""))
        if opened is None:
            yield
            return
        opens_at = opening_of(self._terms[self.plan.sale])
        self._schedule = Schedule(
            opened, opens_at, self.shop.change, (ShopRefused,), repeats=self.plan.lasts
        )
        self._schedule.start()
        try:
            yield
        finally:
            self._schedule.stop()

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Inject the chosen faults until the load has ended; restock what has to last."""
        plan, stock = self.plan, self.plan.stock
        lasting = (stock, None) if plan.faults else refills_of(plan.mix, stock)
        with ExitStack() as cleanup:
            if lasting is not None and self.folder is not None and self.figures:
                units, most = lasting
                self._restocks = Restocks(_Shelf(self), units, self.folder.path, most=most)
                self._restocks.start()
                cleanup.callback(self._restocks.stop)
            if plan.faults and self.folder is not None:
                breaker = Breaker(
                    *(plan.faults, plan.target, plan.sale, plan.seed, self.folder.faults)
                )
                cleanup.callback(self._heal, breaker)
            yield

    def _heal(self, breaker: Breaker) -> None:
        self.reason = breaker.stop() or self.reason

    def watch(self) -> None:
        """Watch the shop, and judge what is certain already, until the load has ended."""
        # Where it is known that there will be no verdict, nothing is broken either.
        live = self.live if not self.reason else None
        with live.following() if live else nullcontext():
            while self.phase == RUNNING:
                began = time.monotonic()
                self._look()
                self._load_ended.wait(max(LOOK, time.monotonic() - began))

    def repeats(self) -> tuple[tuple[str, int], int]:
        """The shop's address, and the run's seed."""
        return self.shop.address, self.plan.seed

    def terms(self) -> list[Terms]:
        """The terms of the sales, and the changes of one of them."""
        changed = self._schedule.rows[1:] if self._schedule else []
        return [*self._terms.values(), *changed]

    def read(self) -> None:
        """Get the final snapshot, the ledger and the mails."""
        assert self.folder is not None
        shop, sale = self.shop, self.plan.sale
        if refused := shop.insist(shop.snapshot, sale, self.folder.final):
            self.reason = self.reason or f"no final read: {refused}"
        # Without the provider's ledger, P11 is unknown.
        shop.insist(shop.ledger, sale, self.folder.ledger)
        refused = shop.insist(shop.deliveries, sale, self.folder.deliveries)
        # The shop's mails go to another server, where nobody can read them.
        if refused is not None and refused.status == 404:
            self.plan = replace(self.plan, mails=False)

    def judge(self) -> None:
        """Let a separate process judge the run, so that the page keeps responding."""
        assert self.folder is not None
        here = self.histories()
        missing = self._processes - len(here)
        if missing > 0:
            self.reason = self.reason or (
                f"the history of {missing} of {self._processes} load-generating processes is not "
                "on this machine"
            )
        if self.folder.again.exists():
            here.append(str(self.folder.again))
        if self._restocks is not None:
            here.append(str(self._restocks.path))
        self.phase = JUDGING_NOW
        self.folder.describe(
            {
                "title": self.plan.title,
                "buyers": self.plan.buyers,
                "repeat": self.plan.repeat,
                "not_judged": self.plan.not_judged,
                "facts": self.plan.facts(self.plan.sale),
                "histories": here,
                "reason": self.reason,
            }
        )
        self.verdict = self._verdict_of(self.folder)
        self.reason = str(self.verdict["reason"])

    def report(self) -> None:
        """Show the verdict; its process has written the report."""
        self.phase = JUDGED

    # --- parts of steps -----------------------------------------------------------------------

    def _look(self) -> bool:
        """Read the figures once; return whether the shop answered."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
            self.answers = True
        except ShopRefused:
            self.answers = False
            return False
        if self.phase == RUNNING and self.folder is not None:
            self.folder.look(self.figures, time.monotonic_ns())
        return True

    def histories(self) -> list[str]:
        """The histories of load-generating processes that are on this machine."""
        return [path for path in self._histories if Path(path).exists()]

    def _so_far(self) -> Asked:
        here = [path for path in self._recorded() if Path(path).exists()]
        return Asked(here, list(self.plan.not_judged), bool(self.plan.faults))

    def books(self, since: float) -> Books | None:
        """Look at the sale's figures and what is pending."""
        if not self._look():
            return None
        names = ("purchases", "held", "confirmed", "available")
        return Books(self.figures["owed"], tuple(self.figures[name] for name in names))

    def _verdict_of(self, folder: RunFolder) -> dict[str, Any]:
        command = [sys.executable, "-m", "loadtest.ui.judge", str(folder.path)]
        root = Path(__file__).resolve().parents[2]
        try:
            done = subprocess.run(
                command, cwd=root, timeout=JUDGING, capture_output=True, text=True, check=False
            )
            problem = done.stderr.strip().splitlines()[-1:] or [""]
        except subprocess.TimeoutExpired:
            problem = [f"judging took more than {JUDGING:.0f} s"]
        return folder.verdict() or {
            "verdict": "unknown",
            "reason": f"the judge did not finish: {problem[0]}",
        }


class _Shelf:
    """The sale's item, by the figures that the run looks at."""

    errors: tuple[type[Exception], ...] = (ShopRefused,)

    def __init__(self, run: PageRun) -> None:
        self._run, self.sale, self.item = run, run.plan.sale, str(run.figures["item"])

    def left(self) -> int | None:
        """Return the units available; None while the shop does not answer."""
        return int(self._run.figures["available"]) if self._run.answers else None

    def add(self, units: int) -> None:
        """Add units."""
        self._run.shop.restock(self.sale, units)

    def close(self) -> None:
        """Nothing is open."""
