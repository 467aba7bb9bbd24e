"""Faults in a running demo: one at a time, injected by one click and healed by another.

A fault of a run (`loadtest/faults`) heals itself after moments, so that the run goes on. Before
an audience, a fault has to last: Redis, PostgreSQL, Celery and the mail server are killed and *held
down*, which their supervisors would otherwise undo within a second. Three kinds need no healing by
hand: what is over in a moment (a killed web process, which its master replaces), what is *armed*
and acts when a process reaches its line, and what would be the end of the show if it lasted (a
paused lock holder). Each of them says so in the frame:

    {"name": "redis-killed", "phase": "acts", "since": 1764300000.0, "until": 1764300060.0,
     "counts": {"accepted": 210, "failed": 0, "without_lock": 37, "stale": 0}}

`phase` is "armed", "acts" or "heals"; `counts` is what the web processes have counted since it
acts. A fault that did not act leaves no band in the charts, only an event that says why.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import psutil

from development import StackError
from development.supervisor import Supervisor
from lab.room.room import Room, Task
from loadtest.fault_log import Injected
from loadtest.fault_needs import DISK, FAILPOINTS
from loadtest.faults import FAULTS, Fault, FaultFailed, Target, left_out
from loadtest.faults.fault import kill
from loadtest.faults.process import ALL, NONE, offered
from loadtest.faults.web import HolderPaused

LONGEST = 60.0
"""Seconds after which a fault is healed although nobody asked: a closed browser must not leave the
demo broken."""

HOLDER_PAUSE = 6.0
"""Seconds for which a lock's holder is paused: three leases. Its buyers wait for as long."""

ARMED = 30.0
"""Seconds that a fault waits for a process to reach its line."""

STEP = 0.5
"""Seconds between two looks whether an armed fault was called off."""

REFUSED_WITHIN = 3.0
"""Seconds after a paused holder continues within which its write has been refused and counted."""

DOWN = {"redis-killed": "valkey", "postgres-killed": "postgres"}
"""Faults of the servers' supervisor that last, with the program that is held down."""

SHOP_DOWN = {"celery-killed": "celery", "mail-killed": "mail"}
"""Likewise, of the shop's supervisor."""

OVER_AT_ONCE = frozenset(
    {
        "web-killed",
        "web-killed-before-commit",
        "web-killed-after-commit",
        "web-killed-before-answer",
        "postgres-restarted",
        "postgres-terminated",
        "broker-emptied",
    }
)
"""Faults that are over when what they hit is back: healing waits for that."""

FILLS_REDIS = "redis-full"
"""A fault in the settings of the server that runs; one that starts anew has not got them."""

WAITS_FOR_COMMIT = "commit-lost"
"""A fault that is armed without a failpoint: a proxy waits for the next COMMITs."""

DEMO = "make demo ARGS=--breakable"
PROVE = 'make prove ARGS="--fault {}"'
"""Commands that have what a fault needs. A database on a small disk loses its data with the disk,
so only a proof has one."""


KEPT = 50
"""Faults that are remembered for the verdict of a rush."""


class Breaks(Protocol):
    """What can be injected and healed; see `loadtest.faults.Fault`."""

    did: dict[str, Any]

    def inject(self) -> None:
        """Inject it."""

    def heal(self) -> None:
        """Undo it, and return when the target works again."""


class HeldDown:
    """A program is killed with its children, and stays away until it is healed.

    Args:
        fault: the run's fault of the same name, which knows when the program works again.
        supervisor: of the program.
        program: its name there.
    """

    def __init__(self, fault: Fault, supervisor: Supervisor, program: str) -> None:
        self.did: dict[str, Any] = {}
        self._fault, self._supervisor, self._program = fault, supervisor, program

    def inject(self) -> None:
        """Kill it. Raises `FaultFailed` if it does not run."""
        pid = self._supervisor.state(self._program).pid
        if not pid:
            raise FaultFailed(f"{self._program} is not running")
        main = psutil.Process(pid)
        everything = [main, *main.children(recursive=True)]
        # Paused first: it must be killed, and not end in order when its supervisor asks it to. And
        # asked it is, because a supervisor restarts what has died, but not what it has stopped.
        main.suspend()
        self._supervisor.stop_program(self._program, wait=False)
        self.did["killed"] = kill(everything)

    def heal(self) -> None:
        """Start it, and return when it works."""
        with suppress(StackError):  # it runs, if it could not be killed
            self._supervisor.start_program(self._program)
        self._fault.heal()


class FaultControl:
    """A fault in the running demo: injected on one click, healed on another.

    Args:
        target: file that says what faults act on; the demo writes it once everything runs. It lies
            in the folder of the shop's supervisor.
        servers: folder of the supervisor of PostgreSQL and Redis.
        room: shows the fault while there is one.

    Attributes:
        task: the fault; stopping it heals it, and returns when everything works again.
        done: the faults that acted and are healed, the last ones.
    """

    def __init__(self, target: Path, servers: Path, room: Room) -> None:
        self._target, self._servers, self._room = target, servers, room
        # The current fault's name, for a room that starts after this one was killed.
        self._note = target.with_name("fault")
        self._add = room.timeline.add
        self._paused: dict[str, Any] | None = None
        self.done: deque[Injected] = deque(maxlen=KEPT)
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

    def restore(self) -> None:
        """Undo what an earlier process of the room has done and could not undo any more: start what
        it held down, let what it paused go on, and end a full Redis. Proxies keep what they do.
        """
        if not self._target.exists():
            return
        if self._note.exists():
            with suppress(StackError, psutil.Error, FaultFailed):
                self._let_go_on()
                if self._note.read_text() == FILLS_REDIS:
                    kill([psutil.Process(Supervisor(self._servers).state("valkey").pid)])
            self._note.unlink()
        for folder, programs in ((self._servers, DOWN), (self._target.parent, SHOP_DOWN)):
            for program in programs.values():
                with suppress(StackError):
                    supervisor = Supervisor(folder)
                    if supervisor.state(program).state == "STOPPED":
                        supervisor.start_program(program)

    def _let_go_on(self) -> None:
        for folder in {self._servers, self._target.parent}:
            for state in Supervisor(folder).states():
                if state.pid:
                    main = psutil.Process(state.pid)
                    for process in (main, *main.children(recursive=True)):
                        process.resume()

    def inject(self, name: str, sale: int) -> None:
        """Start a fault.

        Raises:
            Refused: there is one already.
        """
        self.task.start(self._run, name, sale)

    def heal(self) -> None:
        """Let the fault end, or call it off while it is armed."""
        self.task.end.set()

    def _run(self, name: str, sale: int) -> None:
        fault: Breaks | None = None
        started: float | None = None
        began = time.monotonic_ns()
        self._paused = None
        self._room.show("fault_over", None)
        try:
            fault = self._make(name, sale)
            self._note.write_text(name)
            if self._inject(name, fault):
                started = time.monotonic()
                self._note_paused(fault)
                seconds = _lasts(name)
                self._show(name, "acts", seconds)
                self._add("fault", fault=name)
                self.task.end.wait(seconds)
        except Exception as error:  # noqa: BLE001  # any error is reported and healed
            self._end("fault_failed", fault=name, problem=str(error))
        try:
            if fault is not None:
                if started is not None:
                    self._show(name, "heals", 0.0)
                fault.heal()
                if started is not None:
                    self._conclude(name, started)
        except Exception as error:  # noqa: BLE001  # likewise
            self._end("fault_failed", fault=name, problem=str(error))
        finally:
            self._note.unlink(missing_ok=True)
            self._room.show("fault", None)
            if fault is not None and started is not None:
                # How many requests must get no answer, nobody has planned.
                end = time.monotonic_ns()
                self.done.append(Injected(name, began, end, fault.did, leaves_doubt=False))

    def _make(self, name: str, sale: int) -> Breaks:
        target = replace(Target.read(self._target), sale=sale)
        fault = FAULTS[name](target, Random())
        if name in DOWN:
            return HeldDown(fault, Supervisor(self._servers), DOWN[name])
        if name in SHOP_DOWN:
            return HeldDown(fault, Supervisor(self._target.parent), SHOP_DOWN[name])
        return fault

    def _inject(self, name: str, fault: Breaks) -> bool:
        """Inject it; return whether it has acted."""
        if not is_armed(name):
            fault.inject()
            return True
        self._show(name, "armed", ARMED)
        self._add("fault_armed", fault=name)
        give_up = time.monotonic() + ARMED
        fault.within = STEP  # type: ignore[attr-defined]  # of those with a failpoint
        while time.monotonic() < give_up:
            with suppress(FaultFailed):
                fault.inject()
                return True
            if self.task.end.is_set():
                self._end("fault_called_off", fault=name)
                return False
        self._end("fault_unused", fault=name, seconds=round(ARMED))
        return False

    def _show(self, name: str, phase: str, seconds: float) -> None:
        now = time.time()
        shown: dict[str, Any] = {"name": name, "phase": phase, "since": now, "until": now + seconds}
        if self._paused is not None:
            shown["paused"] = self._paused
        self._room.show_fault(shown)

    def _note_paused(self, fault: Breaks) -> None:
        """Remember with which token a holder was paused, while it still has the lock."""
        if isinstance(fault, HolderPaused):
            pid = str(fault.pid)
            self._paused = {"pid": pid, "token": self._room.token_of(pid)}

    def _conclude(self, name: str, started: float) -> None:
        more: dict[str, Any] = {}
        if self._paused is not None:
            give_up = time.monotonic() + REFUSED_WITHIN
            while time.monotonic() < give_up and not self._room.fault_counts()["stale"]:
                time.sleep(self._room.pause())
            more = {"paused": self._paused, "fence": self._room.last_token()}
        seconds = round(time.monotonic() - started, 1)
        self._end("healed", fault=name, seconds=seconds, **self._room.fault_counts(), **more)

    def _end(self, code: str, **values: Any) -> None:
        """Tell how it ended, as an event and in the panel until the next fault."""
        self._add(code, **values)
        self._room.show("fault_over", {"code": code, "values": values})


def is_armed(name: str) -> bool:
    """Whether a fault waits until a process reaches its line."""
    return FAILPOINTS in FAULTS[name].needs or name == WAITS_FOR_COMMIT


def _lasts(name: str) -> float:
    """Return the seconds after which a fault is healed if nobody asks for it before."""
    if name in OVER_AT_ONCE:
        return 0.0
    return HOLDER_PAUSE if name == HolderPaused.name else LONGEST
