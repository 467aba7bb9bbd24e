"""A rush of buyers at one sale of the running demo, one at a time, and its result card."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from django.db import Error, connection

from development import StackError
from lab.proof.load import LoadFailed
from lab.proof.run import LocalSales, LocustLoad
from lab.proof.testbed import running
from lab.room.card import JUDGING, card_of, counted_at_once
from lab.room.faults import FaultControl
from lab.room.room import Room, Task
from loadtest.checker import Verdict
from loadtest.files import RunFolder, Runs
from loadtest.history import HistoryError
from loadtest.judge_process import judge_apart
from loadtest.run import Faults, ShopUnderTest, Show, run
from loadtest.run_plan import RunPlan
from loadtest.sales import FOLLOWING_UP
from loadtest.shops.flash_sale import look_of

POLL = 0.5
"""Seconds between two looks at the shop."""

PATIENCE = 90.0
"""Seconds to wait for the database before the card is given up: longer than any fault lasts."""

NUMBER = re.compile(r"\d{1,9}")


class Rush:
    """A rush of synthetic buyers at one sale, by Locust in a process of its own.

    Args:
        url: of the shop.
        folder: for the histories of the last rushes.
        room: shows the rush, and its card until the next one.
        faults: injected by hand meanwhile.

    Attributes:
        task: the rush; stopping it sends the buyers away.
    """

    def __init__(self, url: str, folder: Path, room: Room, faults: FaultControl) -> None:
        self._url, self._runs, self._room, self._faults = url, Runs(folder), room, faults
        self._add = room.timeline.add
        self._closing = threading.Event()
        self.task = Task("the last rush is still going on, or being judged")

    def send_away(self) -> None:
        """Send the buyers away; what they did is judged."""
        self.task.end.set()

    def abandon(self) -> None:
        """Send the buyers away, and return when they have left; nothing is judged."""
        self._closing.set()
        self.task.stop()
        self._closing.clear()

    def start(self, plan: RunPlan) -> None:
        """Let buyers at a sale.

        Raises:
            Refused: others are still there.
        """
        self.task.start(self._run, plan)

    def history(self, number: str) -> Iterator[bytes] | None:
        """Return the raw history of a rush, if it is still kept."""
        found = self._find(number)
        if found is None:
            return None
        return (line for path in found.histories() for line in path.open("rb"))

    def report(self, number: str) -> Path | None:
        """Return the page of a rush, if it is still kept."""
        found = self._find(number)
        return found.report if found is not None and found.report.exists() else None

    def _find(self, number: str) -> RunFolder | None:
        return self._runs.find(int(number)) if NUMBER.fullmatch(number) else None

    def _run(self, plan: RunPlan) -> None:
        sale = int(plan.sale)
        self._room.begin_rush(sale, plan.buyers)
        self._add("rush", sale=sale, buyers=plan.buyers)
        try:
            granted = self._room.totals().get("grants", 0)
            files = self._runs.new()
            left = partial(self._show_first_card, files, plan, granted)
            show = RushShow(files, left, self._closing)
            sales = LocalSales(running(self._url), files, show)
            faults = FaultsByHand(self._faults, files)
            by_hand = replace(plan, operated=True)
            verdict = run(by_hand, sales, RushLoad(sales, self.task), faults, show)
            document = files.verdict()
            assert document is not None  # the judge writes one, whatever comes of it
            self._room.show("card", card_of(files, plan, document, verdict.verdict))
        except Abandoned:
            pass
        except (LoadFailed, StackError, HistoryError, OSError, Error) as error:
            problem = str(error).strip() or type(error).__name__
            self._add("rush_failed", sale=sale, problem=problem.splitlines()[-1])
        finally:
            self._room.show("rush", None)
            connection.close()

    def _show_first_card(self, files: RunFolder, plan: RunPlan, granted: int) -> int:
        """Show the card when the buyers have finished; return how often a lock was granted."""
        # Counted here only: the lock is also granted to the questions that are repeated afterwards.
        handovers = self._room.totals().get("grants", 0) - granted
        self._add("rush_over", sale=int(plan.sale))
        document = self._counted(files, plan, handovers)
        self._room.show("card", card_of(files, plan, document, JUDGING))
        return handovers

    def _counted(self, files: RunFolder, plan: RunPlan, handovers: int) -> dict[str, Any]:
        """Return the figures, as soon as the database answers: a fault may keep it away."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                return counted_at_once(files, plan, look_of(plan.sale), handovers=handovers)
            except Error:
                connection.close()
                if self.task.end.wait(1.0) or time.monotonic() > give_up:
                    raise


class Abandoned(Exception):
    """Nobody waits for the verdict any more."""


class RushShow(Show):
    """Has a rush judged in a process of its own, so that the room goes on.

    Args:
        files: of the rush.
        left: called once the buyers have finished; returns how often a lock was granted.
        closing: whether nobody waits for the verdict any more.
    """

    def __init__(self, files: RunFolder, left: Callable[[], int], closing: threading.Event) -> None:
        self._files, self._left, self._closing = files, left, closing
        self._handovers: int | None = None

    def step(self, step: str, seconds: float = 0.0, pending: int = 0) -> None:
        """Say that the buyers have finished.

        Raises:
            Abandoned: the room ends.
        """
        if self._closing.is_set():
            raise Abandoned
        if step == FOLLOWING_UP and self._handovers is None:
            self._handovers = self._left()

    def judge(self, shop: ShopUnderTest[Any]) -> Verdict:
        """Judge it, and write its verdict and its page."""
        assert isinstance(shop, LocalSales)
        look = shop.shop.look(shop.plan.sale)
        figures = {} if self._handovers is None else {"handovers": self._handovers}
        return judge_apart(self._files, shop.plan, shop.reason, look, figures=figures)


class RushLoad(LocustLoad):
    """Buyers who are sent away when the rush is stopped.

    Args:
        sales: that they come to.
        task: the rush.
    """

    def __init__(self, sales: LocalSales, task: Task) -> None:
        super().__init__(sales)
        self._task = task

    def running(self) -> bool:
        """Return whether some still act."""
        return not self._task.end.is_set() and super().running()

    def wait(self) -> None:
        """Wait until it is time to look at the shop again, or until the rush is stopped."""
        self._task.end.wait(POLL)


class FaultsByHand(Faults):
    """The faults that somebody injects during a rush; the verdict has to know of them.

    Args:
        control: injects them.
        files: of the rush.
    """

    def __init__(self, control: FaultControl, files: RunFolder) -> None:
        self._control, self._files = control, files
        self._since = time.monotonic_ns()

    def settle(self) -> None:
        """Wait until no fault acts any more, and write down those of this rush."""
        while self._control.task.busy:
            time.sleep(POLL)
        found = [each for each in self._control.done if each.end >= self._since]
        with self._files.faults.open("w") as log:
            log.writelines(f"{json.dumps(each.to_json())}\n" for each in found)
