"""A rush of synthetic buyers at one sale, by Locust in a process of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.db import Error, connection

from lab.proof.load import Load, LoadFailed
from lab.room.duel import Replays
from lab.room.recorder import recording
from lab.room.room import Task, Timeline
from loadtest.steps import RunPlan

POLL = 0.25
"""Seconds between two looks whether the buyers have finished."""


class Rush:
    """At most one rush at a time.

    Args:
        url: of the shop.
        timeline: is told.
        show: called with what is shown of the rush; with None after it.
        replays: keep what is recorded.
        recorded: called with the number of a recording.
    """

    def __init__(
        self,
        url: str,
        timeline: Timeline,
        show: Callable[[dict[str, Any] | None], None],
        replays: Replays,
        recorded: Callable[[int], None],
    ) -> None:
        self._url, self._timeline, self._show = url, timeline, show
        self._replays, self._recorded = replays, recorded
        self._task = Task("rush")

    def start(self, plan: RunPlan, *, record: bool = False) -> bool:
        """Let buyers at a sale; return False while others are still there."""
        return self._task.start(self._run, plan, record)

    def stop(self) -> None:
        """Send the buyers away, and return when they have gone."""
        self._task.stop()

    def _run(self, plan: RunPlan, record: bool) -> None:
        sale = int(plan.sale)
        self._show({"sale": sale, "buyers": plan.buyers})
        self._timeline.add("rush", sale=sale, buyers=plan.buyers)
        with tempfile.TemporaryDirectory(prefix="rush-") as folder:
            path = Path(folder)
            try:
                with recording(path) if record else nullcontext():
                    self._let_in(plan, path, record)
                self._timeline.add("rush_over", sale=sale)
                if record:
                    self._keep(plan, path)
            except LoadFailed as error:
                self._timeline.add("rush_failed", sale=sale, problem=str(error).splitlines()[-1])
            finally:
                self._show(None)

    def _let_in(self, plan: RunPlan, folder: Path, record: bool) -> None:
        # A checker would know nothing of a click on stock or terms meanwhile: a rush's history is
        # for slow motion only, and the books are judged.
        load = Load(plan, self._url, folder, records=record)
        try:
            while load.running() and not self._task.end.wait(POLL):
                pass
        finally:
            load.stop()

    def _keep(self, plan: RunPlan, folder: Path) -> None:
        sale = int(plan.sale)
        title = f"{plan.mix} · {plan.buyers:,} · {time.strftime('%H:%M:%S')}"
        try:
            self._recorded(self._replays.keep(folder, sale, title))
            self._timeline.add("recorded", sale=sale)
        except (Error, OSError, ValueError) as error:
            self._timeline.add("record_failed", problem=str(error))
        finally:
            connection.close()
