"""Moves: a run written down choice by choice, short enough for an address.

`A.A.B!.+.C*9` means: A takes two steps, B's process dies, time passes until the next event, C takes
nine steps.  A schedule (`schedule.py`) lists deviations from a default order and fits any lock;
moves leave nothing to a default, so a person can make them one by one.

- `A`: client A runs its next command; `A*9`: nine of them
- `A?`: the same, but the message that the command publishes is lost; `A<`: but the command is
  lost on its way; `A>`: but its answer is
- `A!`: A's process dies; `A~`: it is paused for 15 s
- `+`: nobody acts until the next event: a wait, a pause or a lease ends
- `fail-over`, `evict`, `clock-jump`: what hits the server
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from course.simulator.process import Thread
from course.simulator.schedule import LOSSES, SERVER_ACTS, Act, Deviation, Scheduler
from course.simulator.world import HORIZON, World

LONGEST = 2_000
"""Characters."""

MOST = 1_500
"""Moves; the simulator plays that many in a fraction of a second."""

PAUSE = 15.0

TIME = "+"
MOVE = re.compile(r"(\+|[\w-]+[!~?<>]?)(?:\*(\d{1,4}))?")


class Impossible(Exception):
    """A move that cannot be made at its place; `number` counts from 1."""

    def __init__(self, why: str, number: int = 0) -> None:
        super().__init__(why)
        self.number = number


def parse(text: str) -> list[str]:
    """Return the moves one by one; `Impossible` if the text is too long or no moves."""
    if len(text) > LONGEST:
        raise Impossible(f"longer than {LONGEST} characters")
    moves: list[str] = []
    for word in text.split(".") if text else ():
        found = MOVE.fullmatch(word)
        if found is None:
            raise Impossible(f"no move: {word[:40]}")
        moves += [found[1]] * int(found[2] or 1)
        if len(moves) > MOST:
            raise Impossible(f"more than {MOST} moves")
    return moves


def write(moves: Iterable[str]) -> str:
    """Return the moves as text, with repeats counted."""
    return ".".join(_counted(move, len(list(same))) for move, same in groupby(moves))


def _counted(move: str, times: int) -> str:
    return move if times == 1 else f"{move}*{times}"


class SteppedWorld(World):
    """A world that makes the given moves and then stands still.

    Time passes by itself only when no client can act.  `over`: nothing can happen any more.
    """

    def __init__(self, moves: Iterable[str], *, target: str = "", seconds: float = PAUSE) -> None:
        super().__init__(Scheduler())
        self.over = False
        self._left: Iterator[tuple[int, str]] = enumerate(moves, start=1)
        self._target = target
        self._seconds = seconds

    def events(self) -> list[int]:
        """Return when something will happen by itself: a wait, a pause or a lease ends."""
        found = {thread.due for thread in self.threads if not thread.ready and thread.due}
        found |= {thread.process.paused_until for thread in self.threads}
        for server in self.servers.values():
            found |= set(server.ends())
        return sorted(at for at in found if at is not None and self.now < at <= HORIZON)

    def choices(self) -> list[Thread]:
        """Return the threads that can run a command now, one per process."""
        by_process: dict[str, Thread] = {}
        for thread in sorted(self._runnable(), key=lambda one: one.order):
            by_process.setdefault(thread.process.name, thread)
        return list(by_process.values())

    def _next(self) -> Thread | None:
        while True:
            able = self._runnable()
            quick = [thread for thread in able if not thread.stepping]
            if quick:
                return min(quick, key=lambda one: one.order)
            if not able and not self._let_time_pass():
                self.over = True
                return None
            if able:
                number, move = next(self._left, (0, ""))
                if not move:
                    del self.on_end[:-1]  # the monitor's: the run is not over
                    return None
                try:
                    thread = self._make(move)
                except Impossible as problem:
                    raise Impossible(str(problem), number) from None
                if thread is not None:
                    return thread

    def _make(self, move: str) -> Thread | None:
        if move == TIME:
            events = self.events()
            if not events:
                raise Impossible("nothing will happen by itself")
            self.now = events[0]
            return None
        if move in SERVER_ACTS:
            act = SERVER_ACTS[move]
            anyone = self.choices()[0]
            here = Deviation(anyone.process.name, "", 0, act, self._target, self._seconds)
            return self._apply_fault(here, anyone)
        name = move.rstrip("!~?<>")
        living = [thread for thread in self.threads if thread.process.name == name]
        if not living:
            raise Impossible(f"{name} is not there")
        mark = move[len(name) :]
        if mark in ("!", "~"):
            act = Act.CRASH if mark == "!" else Act.PAUSE
            return self._apply_fault(Deviation(name, "", 0, act, "", PAUSE), living[0])
        mine = [thread for thread in self.choices() if thread.process.name == name]
        if not mine:
            raise Impossible(f"{name} cannot act now")
        mine[0].effect = next((act for act, one in LOSSES.items() if one == mark), None)
        mine[0].process.faults += bool(mark)
        return self._take(mine[0])
