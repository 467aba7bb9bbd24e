"""The simulated processes with their threads, and a server that faults can hit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from greenlet import greenlet

from course.simulator.history import MICROSECONDS, Kind, Text, _
from course.simulator.schedule import Act

if TYPE_CHECKING:
    from course.simulator.world import World

T = TypeVar("T")


class Stuck(Exception):
    """A run cannot continue because of an error in the scenario, not in the lock."""


class Server:
    """A server that faults can hit; as it is here, none of them does anything to it."""

    title = "server"
    """Names it in errors."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        world.servers[name] = self

    def call(self, words: tuple[Any, ...], run: Callable[[], T]) -> T:
        """Run a command of the running process, shown as `words`; return its answer.

        Raises `ConnectionError` if the scheduler loses the request or the answer.
        """
        effect, process = self.world.step(words), self.world.me()
        if effect not in (None, Act.LOSE_REQUEST, Act.LOSE_REPLY):
            raise Stuck(f"the simulated {self.title} cannot {effect}")
        if effect is Act.LOSE_REQUEST:
            what = (*words, Text(_("never arrives")))
            self.world.record(Kind.FAULT, what, who=process.name, server=self.name)
            raise ConnectionError("the connection was lost")
        try:
            answer = run()
        except Exception as problem:
            self.record(process, words, type(problem).__name__)
            raise
        self.record(process, words, answer, Kind.COMMAND if effect is None else Kind.LOST)
        if effect is not None:
            raise ConnectionError("the connection was lost")
        return answer

    def record(
        self, process: Process, words: Any, answer: Any = None, kind: Kind = Kind.COMMAND
    ) -> None:
        """Show a command of the process in the timeline, with its answer."""
        self.world.record(kind, words, answer, who=process.name, server=self.name)
        if self.world.monitor is not None and kind is not Kind.NOTE:
            self.world.monitor.saw_arrival(process)

    def ends(self) -> list[int]:
        """Return when what it keeps will expire, in virtual microseconds."""
        return []

    def contents(self) -> list[tuple[Any, Any, int | None]]:
        """Return what it keeps: the name, the value, and when it expires."""
        return []

    def lose(self, process: Process) -> None:
        """Note that a client's process has died."""

    def suffer(self, act: Act, seconds: float) -> str:
        """Suffer a fault, of so many seconds if it has a length; return a description."""
        return Text(_("is not affected (%s)"), act)


class Process:
    """A client's operating system process: it has a clock and can crash or be paused."""

    def __init__(self, name: str, *, skew: float = 0.0, booted: float = 0.0) -> None:
        self.name = name
        self.skew = round(skew * MICROSECONDS)
        self.booted = round(booted * MICROSECONDS)  # before the run; its monotonic clock counts it
        self.crashed = False
        self.crashed_at = 0
        self.paused_until = 0
        self.phase = "acquire"
        self.steps = 0  # commands of the phase, over all threads
        self._rounds: dict[str, int] = {}
        self._names = 0
        self.faults = 0  # that have hit it
        self.disturbed = False  # by a fault, so it may have lost its place in a queue

    def begin(self, phase: str) -> None:
        """Restart the command count, so that a schedule applies to other locks, too."""
        rounds = self._rounds[phase] = self._rounds.get(phase, 0) + 1
        self.phase = phase if rounds == 1 else f"{phase} {rounds}"
        self.steps = 0

    def next_name(self) -> str:
        """Return a name that is unique in the world."""
        self._names += 1
        return self.name if self._names == 1 else f"{self.name}{self._names}"


@dataclass(slots=True, eq=False, weakref_slot=True)
class Thread:
    """One thread of a process: a greenlet and the state of its wait."""

    process: Process
    greenlet: greenlet
    daemon: bool  # ends with the last non-daemon thread of its process
    ready: bool = True
    stepping: bool = False  # its next move is a command …
    about: Any = None  # … this one
    due: int | None = None  # when a wait times out
    woken: bool = False  # a wait ended before its timeout
    order: int = 0  # the order in which threads became ready
    effect: Act | None = None  # the scheduler's action on its next command
    done: bool = False

    # -- as `threading.current_thread()` returns it to the lock's code

    @property
    def ident(self) -> int:
        """Its number."""
        return id(self)

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return not self.done
