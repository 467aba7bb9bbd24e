"""What the room does to a running demo in threads: one rush of buyers, and one fault, at a time."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from random import Random

from lab.proof.load import Load, LoadFailed
from lab.room.room import Room, Task
from loadtest.fault_needs import DISK
from loadtest.faults import FAULTS, Target, left_out
from loadtest.steps import RunPlan
from loadtest.ui.faults import ALL, NONE, offered

POLL = 0.25
"""Seconds between two looks whether the buyers have finished."""


class Rush:
    """A rush of synthetic buyers at one sale, by Locust in a process of its own.

    Args:
        url: of the shop.
        room: shows the rush.

    Attributes:
        task: the rush; stopping it sends the buyers away.
    """

    def __init__(self, url: str, room: Room) -> None:
        self._url, self._room = url, room
        self._add = room.timeline.add
        self.task = Task("the buyers of the last rush are still there")

    def start(self, plan: RunPlan) -> None:
        """Let buyers at a sale.

        Raises:
            Refused: others are still there.
        """
        self.task.start(self._run, plan)

    def _run(self, plan: RunPlan) -> None:
        sale = int(plan.sale)
        self._room.show("rush", {"sale": sale, "buyers": plan.buyers})
        self._add("rush", sale=sale, buyers=plan.buyers)
        with tempfile.TemporaryDirectory(prefix="rush-") as folder:
            path = Path(folder)
            try:
                self._let_in(plan, path)
                self._add("rush_over", sale=sale)
            except LoadFailed as error:
                self._add("rush_failed", sale=sale, problem=str(error).splitlines()[-1])
            finally:
                self._room.show("rush", None)

    def _let_in(self, plan: RunPlan, folder: Path) -> None:
        # A checker would know nothing of a click on stock or terms meanwhile: only the books are
        # judged, and no history is written.
        load = Load(plan, self._url, folder, records=False)
        try:
            while load.running() and not self.task.end.wait(POLL):
                pass
        finally:
            load.stop()


LONGEST = 60.0
"""Seconds after which a fault is healed although nobody asked: a closed browser must not leave the
demo broken."""

DEMO = "make demo ARGS=--breakable"
PROVE = 'make prove ARGS="--fault {}"'
"""Commands that have what a fault needs. A database on a small disk loses its data with the disk,
so only a proof has one."""


class FaultControl:
    """A fault in the running demo: injected on one click, healed on another.

    Args:
        target: file that says what faults act on; the demo writes it once everything runs.
        room: shows the fault's name while there is one.

    Attributes:
        task: the fault; stopping it heals it, and returns when everything works again.
    """

    def __init__(self, target: Path, room: Room) -> None:
        self._target, self._room = target, room
        self._add = room.timeline.add
        self.task = Task("heal the current fault first")

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

    def inject(self, name: str, sale: int) -> None:
        """Start a fault.

        Raises:
            Refused: there is one already.
        """
        self.task.start(self._run, name, sale)

    def heal(self) -> None:
        """Let the fault end."""
        self.task.end.set()

    def _run(self, name: str, sale: int) -> None:
        fault, injected, started = None, False, time.monotonic()
        self._room.show("fault", name)
        try:
            target = replace(Target.read(self._target), sale=sale)
            fault = FAULTS[name](target, Random())
            fault.inject()
            injected = True
            self._add("fault", fault=name)
            self.task.end.wait(LONGEST)
        except Exception as error:  # noqa: BLE001  # any error is told and healed
            self._add("fault_failed", fault=name, problem=str(error))
        try:
            if fault is not None:
                fault.heal()
            if injected:
                seconds = round(time.monotonic() - started, 1)
                self._add("healed", fault=name, seconds=seconds)
        except Exception as error:  # noqa: BLE001  # likewise
            self._add("fault_failed", fault=name, problem=str(error))
        finally:
            self._room.show("fault", None)
