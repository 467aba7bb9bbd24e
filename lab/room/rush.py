"""A rush of buyers at one sale of the running demo, one at a time, and its result card."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import Error, connection

from lab.proof.load import Load, LoadFailed
from lab.room.card import result_card
from lab.room.room import Room, Task
from loadtest.files import RunFolder, Runs, take_tokens
from loadtest.history import HistoryError, operations
from loadtest.steps import RunPlan

POLL = 0.25
"""Seconds between two looks whether the buyers have finished."""

PATIENCE = 90.0
"""Seconds to wait for the database before the card is given up: longer than any fault lasts."""

NUMBER = re.compile(r"\d{1,9}")


class Rush:
    """A rush of synthetic buyers at one sale, by Locust in a process of its own.

    Args:
        url: of the shop.
        folder: for the histories of the last rushes.
        room: shows the rush, and its card until the next one.

    Attributes:
        task: the rush; stopping it sends the buyers away.
    """

    def __init__(self, url: str, folder: Path, room: Room) -> None:
        self._url, self._runs, self._room = url, Runs(folder), room
        self._add = room.timeline.add
        self.task = Task("the buyers of the last rush are still there")

    def start(self, plan: RunPlan) -> None:
        """Let buyers at a sale.

        Raises:
            Refused: others are still there.
        """
        self.task.start(self._run, plan)

    def history(self, number: str) -> Iterator[bytes] | None:
        """Return the raw history of a rush, if it is still kept."""
        found = self._runs.find(int(number)) if NUMBER.fullmatch(number) else None
        if found is None:
            return None
        return (line for path in found.histories() for line in path.open("rb"))

    def _run(self, plan: RunPlan) -> None:
        sale = int(plan.sale)
        self._room.show("card", None)
        self._room.show("rush", {"sale": sale, "buyers": plan.buyers})
        self._add("rush", sale=sale, buyers=plan.buyers)
        try:
            granted = self._room.totals().get("grants", 0)
            run = self._runs.new()
            self._let_in(plan, run)
            self._add("rush_over", sale=sale)
            take_tokens(run.path)  # nobody asks again for these buyers
            self._room.show("card", {**self._card(run, sale, granted), "run": run.number})
        except (LoadFailed, HistoryError, OSError, Error) as error:
            problem = str(error).strip() or type(error).__name__
            self._add("rush_failed", sale=sale, problem=problem.splitlines()[-1])
        finally:
            self._room.show("rush", None)
            connection.close()

    def _card(self, run: RunFolder, sale: int, granted: int) -> dict[str, Any]:
        """Return the card, as soon as the database answers: a fault may keep it away."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                handovers = self._room.totals().get("grants", 0) - granted
                return result_card(operations(*run.histories()), sale, handovers=handovers)
            except Error:
                connection.close()
                if self.task.end.wait(1.0) or time.monotonic() > give_up:
                    raise

    def _let_in(self, plan: RunPlan, run: RunFolder) -> None:
        load = Load(plan, self._url, run.path)
        try:
            while load.running() and not self.task.end.wait(POLL):
                pass
        finally:
            load.stop()
