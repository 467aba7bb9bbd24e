"""One fault at a time in the running demo: injected on one click, healed on another."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from lab.room.room import Task, Timeline
from loadtest.fault_needs import DISK
from loadtest.faults import FAULTS, Target, left_out
from loadtest.ui.faults import ALL, NONE, offered

LONGEST = 60.0
"""Seconds after which a fault is healed although nobody asked: a closed browser must not leave the
demo broken."""

DEMO = "make demo ARGS=--breakable"
PROVE = 'make prove ARGS="--fault {}"'
"""Commands that have what a fault needs. A database on a small disk loses its data with the disk,
so only a proof has one."""


class FaultControl:
    """Injects and heals.

    Args:
        target: file that says what faults act on; the demo writes it once everything runs.
        timeline: is told.
        show: called with the fault's name while there is one, and with None after it.
    """

    def __init__(
        self, target: Path, timeline: Timeline, show: Callable[[str | None], None]
    ) -> None:
        self._target, self._timeline, self._show = target, timeline, show
        self._task = Task("fault")

    def offered(self) -> list[str]:
        """Return the names of the faults that are possible here."""
        return [name for name in offered(str(self._target)) if name not in (NONE, ALL)]

    def missing(self) -> list[dict[str, str]]:
        """Return the faults that are not possible here: what they lack, and how to have them.

        Empty where this demo has no faults at all.
        """
        if not self.offered():
            return []
        there = Target.read(self._target).has()
        return [
            {
                "fault": name,
                "lack": lack,
                "command": PROVE.format(name) if lack == DISK else DEMO,
            }
            for name, lack in left_out(FAULTS, there).items()
        ]

    def inject(self, name: str, sale: int) -> bool:
        """Start a fault; return False if there is one already."""
        return self._task.start(self._run, name, sale)

    def heal(self) -> None:
        """Let the fault end."""
        self._task.end.set()

    def stop(self) -> None:
        """Heal the fault, and return when everything works again."""
        self._task.stop()

    def _run(self, name: str, sale: int) -> None:
        fault, injected, started = None, False, time.monotonic()
        self._show(name)
        try:
            target = replace(Target.read(self._target), sale=sale)
            fault = FAULTS[name](target, Random())
            fault.inject()
            injected = True
            self._timeline.add("fault", fault=name)
            self._task.end.wait(LONGEST)
        except Exception as error:  # noqa: BLE001  # any error is told and healed
            self._timeline.add("fault_failed", fault=name, problem=str(error))
        try:
            if fault is not None:
                fault.heal()
            if injected:
                seconds = round(time.monotonic() - started, 1)
                self._timeline.add("healed", fault=name, seconds=seconds)
        except Exception as error:  # noqa: BLE001  # likewise
            self._timeline.add("fault_failed", fault=name, problem=str(error))
        finally:
            self._show(None)
