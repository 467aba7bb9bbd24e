"""The simulated processes with their threads, and the interface of a server that faults can hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from greenlet import greenlet

from lab.locks.simulator.history import MICROSECONDS
from lab.locks.simulator.schedule import Act


class Server(Protocol):
    """What a fault can be done to."""

    name: str

    def fail_over(self) -> str:
        """Lose the last write; says what became of it."""

    def evict(self) -> str:
        """Drop the lock's key; says what became of it."""

    def jump(self, seconds: float) -> str:
        """Set the server's clock ahead; says what became of it."""


class Process:
    """A client's operating system process: what crashes, is paused, and has a clock."""

    def __init__(self, name: str, *, skew: float = 0.0) -> None:
        self.name = name
        self.skew = round(skew * MICROSECONDS)
        self.crashed = False
        self.crashed_at = 0
        self.paused_until = 0
        self.phase = "acquire"
        self.steps = 0  # commands of the phase, over all threads
        self._rounds: dict[str, int] = {}
        self._names = 0
        self.disturbed = False  # a fault hit it, so it may have lost its place in a queue

    def begin(self, phase: str) -> None:
        """Count commands afresh, for a schedule that means the same on other locks."""
        rounds = self._rounds[phase] = self._rounds.get(phase, 0) + 1
        self.phase = phase if rounds == 1 else f"{phase} {rounds}"
        self.steps = 0

    def next_name(self) -> str:
        """A name that nothing else in the world has."""
        self._names += 1
        return self.name if self._names == 1 else f"{self.name}{self._names}"


class Thread:
    """One thread of a process: a greenlet and what it waits for."""

    __slots__ = (
        "daemon",
        "done",
        "due",
        "effect",
        "facade",
        "greenlet",
        "order",
        "process",
        "ready",
        "stepping",
        "woken",
    )  # fmt: skip

    def __init__(
        self, process: Process, run: Callable[[], None], hub: greenlet, *, daemon: bool
    ) -> None:
        self.process = process
        self.daemon = daemon  # ends with the last other thread of its process
        self.greenlet = greenlet(run, hub)  # its end leads back to the loop, whoever started it
        self.ready = True
        self.stepping = False  # its next move is a command
        self.due: int | None = None  # when a wait ends by itself
        self.woken = False  # a wait ended before that
        self.order = 0  # since when it is ready
        self.effect: Act | None = None  # what the scheduler did to its next command
        self.done = False
        self.facade: Any = None  # what `threading.current_thread()` gives it, always the same
