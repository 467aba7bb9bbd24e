"""A duel: the same buyers at two sales of one shop at once, each with its own strategy.

Each side is a whole proof, with its own load, history, verdict and report. Both sales belong to one
shop, because two whole shops would share two cores with two loads: each side would then be measured
under the other's processes rather than beside its purchases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.db import connection

from lab.proof.load_profile import LoadProfile
from lab.proof.plan import Plan
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.run import Proof
from lab.proof.testbed import Testbed
from loadtest.orchestrator import RunFiles
from loadtest.ui.runs import RunFolder, Runs

TOGETHER = 60
"""Seconds that a side waits for the other one before the sales open."""


def plans(strategies: tuple[str, str], buyers: int, stock: int, seed: int) -> list[Plan]:
    """Return the plans of both sides: the same buyers, by the same seed."""
    profile = LoadProfile(buyers, "rush", seed)
    return [Plan(profile, stock, 1, strategy) for strategy in strategies]


def folders(runs: Path) -> tuple[int, list[Path]]:
    """Make the folders of a new duel's sides; return its number too."""
    run: RunFolder = Runs(runs).new()
    sides = [run.path / "first", run.path / "second"]
    for side in sides:
        side.mkdir()
    return run.number, sides


class Side(Proof):
    """One side's proof.

    Args:
        plan, testbed, folder, tell: see `Proof`.
        together: both sides open their sales after it.
        opened: called with the sale's id.
    """

    def __init__(
        self,
        plan: Plan,
        testbed: Testbed,
        folder: Path,
        tell: Callable[[Progress], None],
        *,
        together: threading.Barrier,
        opened: Callable[[int], None],
    ) -> None:
        super().__init__(plan, testbed, folder, tell, RunFiles(folder).report)
        self._together, self._opened = together, opened

    def plan(self) -> None:
        """Open the sale when the other side is ready too."""
        self._together.wait(TOGETHER)
        super().plan()
        self._opened(self._ids[0])


def fight(
    plans: list[Plan],
    testbed: Testbed,
    folders: list[Path],
    *,
    tell: Callable[[int, Progress], None],
    opened: Callable[[int, int], None],
) -> list[Result]:
    """Run both sides at once; return their results.

    Args:
        plans: of the sides.
        testbed: the shop.
        folders: for each side's history and report.
        tell: called with the side's number and its progress.
        opened: called with the side's number and its sale's id.

    Raises:
        LoadFailed, StackError: a side could not be run.
    """
    together = threading.Barrier(len(plans))

    def run(number: int) -> Result:
        side = Side(
            plans[number],
            testbed,
            folders[number],
            lambda now: tell(number, now),
            together=together,
            opened=lambda sale: opened(number, sale),
        )
        try:
            side.run()
        except BaseException:
            together.abort()
            raise
        finally:
            connection.close()
        return side.result

    with ThreadPoolExecutor(len(plans)) as sides:
        return list(sides.map(run, range(len(plans))))
