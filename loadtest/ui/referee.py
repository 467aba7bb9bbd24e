"""Follows a run from its start to its verdict."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent

from loadtest.demo_shop import DemoShop, ShopRefused
from loadtest.tally import Tally
from loadtest.ui.faults import ALL, NONE, Trouble
from loadtest.ui.runs import RunFolder, Runs

# Seconds between two looks at the shop, at least. A look that takes longer makes the pause as long:
# looking must not become a load of its own.
LOOK = 1.0
# Seconds for the follow-up to come to rest; what is open then is judged as it is.
DRAIN = 120.0
# Seconds to get the final snapshot from a shop that may be coming back from something.
FINAL_READ = 60.0
# Seconds that judging may take.
JUDGING = 600.0

# P9 wants fencing tokens, P12 faults.
PROPERTIES = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P10", "P11", "P13")

IDLE, RUNNING, SETTLING, JUDGING_NOW, JUDGED = "idle", "running", "settling", "judging", "judged"


@dataclass(frozen=True, slots=True)
class Plan:
    """What was chosen for a run, as far as its report tells it."""

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

    @property
    def properties(self) -> list[str]:
        """What can be said about such a run."""
        more = {"P9": self.fenced, "P12": self.fault != NONE}
        return [*PROPERTIES, *(name for name, asked in more.items() if asked)]

    @property
    def loop(self) -> str:
        """How buyers come."""
        return f"open loop, {self.arrivals:g} buyers/s" if self.arrivals else "closed loop"

    def describe(self, units: int) -> dict[str, Any]:
        """What `judge.py` wants to know."""
        repeat = (
            f"--buyers {self.users} --stock {units} --limit {self.limit} "
            f"--strategy {self.strategy} --mix {self.mix} --seed {self.seed}"
            + (f" --arrivals {self.arrivals:g}" if self.arrivals else "")
            + _fault_argument(self.fault)
        )
        return {
            "title": f"{self.users:,} users, {units:,} units, strategy {self.strategy}",
            "repeat": f'make prove ARGS="{repeat}"',
            "properties": self.properties,
            "facts": {
                "sale": self.sale,
                "strategy": self.strategy,
                "buyers": f"{self.mix}, {self.loop}",
                "seed": self.seed,
                **({"faults": self.fault} if self.fault != NONE else {}),
            },
        }


def _fault_argument(fault: str) -> str:
    if fault == NONE:
        return ""
    return " --minutes 1 --faults all" if fault == ALL else f" --minutes 1 --fault {fault}"


@dataclass(slots=True)
class Case:
    """One run, as far as it is known. Nothing of it is shared with the run after it."""

    plan: Plan
    shop: DemoShop
    folder: RunFolder | None
    phase: str = RUNNING
    figures: dict[str, Any] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    verdict: dict[str, Any] | None = None
    reason: str = ""
    trouble: Trouble | None = None
    units: int = 0

    @property
    def number(self) -> int:
        """Of the run; 0 for a sale in which none has begun."""
        return self.folder.number if self.folder else 0

    @property
    def outcome(self) -> str:
        """pass, fail or unknown, or what is going on until then."""
        return str(self.verdict["verdict"]) if self.verdict else self.phase

    def counted(self, name: str) -> float:
        """What the shop's processes have counted since the run began."""
        now = self.figures.get("counters", {}).get(name, 0)
        return max(0.0, float(now - self.before.get(name, 0)))

    def begin(self) -> None:
        """Look at the sale before anybody buys. Raises `ShopRefused`."""
        self.figures = self.shop.figures(self.plan.sale)
        self.before = self.figures["counters"]
        self.units = self.figures["total"]
        if self.figures["purchases"]:
            self.reason = (
                f"sale {self.plan.sale} was sold from before this run, by buyers whose answers "
                "nobody wrote down; only a fresh sale can be judged"
            )

    def watch(self) -> None:
        """Look at the shop until the run is over."""
        while self.phase == RUNNING:
            began = time.monotonic()
            if self.look() and self.trouble is not None and self.phase == RUNNING:
                self.trouble.look(self.figures)
            gevent.sleep(max(LOOK, time.monotonic() - began))

    def look(self) -> bool:
        """Look once: whether the shop answered."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
        except ShopRefused:
            return False
        if self.phase == RUNNING and self.folder is not None:
            self.folder.look(self.figures, time.monotonic_ns())
        return True

    def settle(self) -> None:
        """Wait until nothing moves and nothing is owed any more."""
        give_up = time.monotonic() + DRAIN
        before: tuple[int, ...] | None = None
        while time.monotonic() < give_up:
            if self.look():
                names = ("purchases", "held", "confirmed", "available", "owed")
                now = tuple(self.figures[name] for name in names)
                if now == before and not self.figures["owed"]:
                    return
                before = now
            gevent.sleep(LOOK)

    def read(self, folder: RunFolder) -> None:
        """Get the final snapshot, or say why there is none; and the payment provider's ledger,
        without which P11 is unknown.
        """
        problem = self._get(self.shop.snapshot, folder.final)
        self.reason = self.reason or problem
        self._get(self.shop.ledger, folder.ledger)

    def _get(self, fetch: Callable[[str, Path], None], path: Path) -> str:
        """Ask until there is an answer; what went wrong, or nothing."""
        give_up = time.monotonic() + FINAL_READ
        while True:
            try:
                fetch(self.plan.sale, path)
            except ShopRefused as error:
                if time.monotonic() < give_up:
                    gevent.sleep(LOOK)
                    continue
                return f"no final read: {error}"
            return ""

    def judge(self, folder: RunFolder, histories: list[str]) -> None:
        """Have the run judged by a process of its own, so that the page does not stand still."""
        description = self.plan.describe(self.units)
        folder.describe({**description, "histories": histories, "reason": self.reason})
        command = [sys.executable, "-m", "loadtest.ui.judge", str(folder.path)]
        root = Path(__file__).resolve().parents[2]
        try:
            done = subprocess.run(
                command, cwd=root, timeout=JUDGING, capture_output=True, text=True, check=False
            )
            problem = done.stderr.strip().splitlines()[-1:] or [""]
        except subprocess.TimeoutExpired:
            problem = [f"judging took more than {JUDGING:.0f} s"]
        self.verdict = folder.verdict() or {
            "verdict": "unknown",
            "reason": f"the judge came to no end: {problem[0]}",
        }
        self.reason = str(self.verdict["reason"])


class Referee:
    """The run that goes on or was the last, and those before it.

    Args:
        runs: where they are kept.
        tallies: what each load-generating process has done.
    """

    def __init__(self, runs: Runs, tallies: Callable[[], list[Tally]]) -> None:
        self.runs = runs
        self.case: Case | None = None
        self._tallies = tallies

    @property
    def tally(self) -> Tally:
        """What all processes have done together."""
        return Tally.sum(self._tallies())

    def begin(self, plan: Plan, shop: DemoShop) -> RunFolder:
        """Follow a run from now on; gives the folder for its history."""
        folder = self.runs.new()
        self.case = case = Case(plan, shop, folder)
        try:
            case.begin()
        except ShopRefused as error:
            case.reason = f"the shop shows no figures: {error}"
        if plan.fault != NONE:
            case.trouble = Trouble(
                fault=plan.fault,
                target=plan.target,
                shop=shop,
                sale=plan.sale,
                units=case.units,
                seed=plan.seed,
                folder=folder.path,
            )
        gevent.spawn(case.watch)
        return folder

    def end(self, processes: int) -> None:
        """The run is over: judge it. `processes` of load generation took part."""
        case = self.case
        if case is None or case.folder is None or case.phase != RUNNING:
            return
        case.phase = SETTLING
        gevent.spawn(self._conclude, case, case.folder, self._tallies(), processes)

    def shown(self, plan: Plan, shop: DemoShop) -> None:
        """Show a sale that nobody has bought in yet. Raises `ShopRefused`."""
        figures = shop.figures(plan.sale)
        self.case = Case(plan, shop, None, IDLE, figures, figures["counters"])

    def _conclude(
        self, case: Case, folder: RunFolder, tallies: list[Tally], processes: int
    ) -> None:
        histories = [each.history for each in tallies if each.history]
        if case.trouble is not None:
            case.reason = case.reason or case.trouble.stop()
        case.settle()
        case.read(folder)
        here = [path for path in histories if Path(path).exists()]
        if len(here) < processes:
            case.reason = case.reason or (
                f"the history of {processes - len(here)} of {processes} load-generating processes "
                "is not on this machine"
            )
        if case.trouble is not None:
            here.append(case.trouble.history)
        case.phase = JUDGING_NOW
        case.judge(folder, here)
        case.phase = JUDGED
