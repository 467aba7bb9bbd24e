"""A position of a run: what each client is about to do, what the servers keep, who held the lock.

A position is a function of the scenario and the moves, so it needs no session: an address that
contains the moves shows the same position to everyone.

Moves are a run written down choice by choice.  `A.A.B!.+.C*9` means: A takes two steps, B's process
dies, time passes until the next event, C takes nine steps.  A schedule (`schedule.py`) lists
deviations from a default order and fits any lock; moves leave nothing to a default, so a person can
make them one by one.

- `A`: client A runs its next command; `A*9`: nine of them
- `A?`: the same, but the message that the command publishes is lost; `A<`: but the command is
  lost on its way; `A>`: but its answer is
- `A!`: A's process dies; `A~`: it is paused for 15 s
- `+`: nobody acts until the next event: a wait, a pause or a lease ends
- `fail-over`, `evict`, `clock-jump`: what hits the server
"""

import linecache
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from course.lesson import Scenario, modules
from course.simulator.history import MICROSECONDS, Event, Kind, Say, said
from course.simulator.process import Process, Stuck, Thread
from course.simulator.production import LOCK_KEY
from course.simulator.schedule import LOSSES, SERVER_ACTS, Act, Deviation, FaultModel, Scheduler
from course.simulator.simulation import KEY, run_in
from course.simulator.timeline import Row, folded, readable, reader, rows, values_of
from course.simulator.virtual import inside_simulation
from course.simulator.world import HORIZON, World

ROOT = Path(__file__).resolve().parents[1]

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
    counted = [(move, len(list(same))) for move, same in groupby(moves)]
    return ".".join(move if times == 1 else f"{move}*{times}" for move, times in counted)


@dataclass(slots=True)
class Client:
    """A client at a position.

    `state`: "ready" for its next command, "waiting" or "paused" until `until` (seconds; None: until
    it is woken), "new" before it starts, "dead" or "done".  `file`, `line` and `code` are the line
    of the lock that it is about to run or waits in, `command` what that sends to the server.
    """

    name: str
    state: str
    until: float | None = None
    inside: bool = False
    file: str = ""
    line: int = 0
    code: str = ""
    command: str = ""


@dataclass(slots=True)
class Bar:
    """A time during which `who` held the lock: a client believed so, or a server's key said so."""

    who: str
    kind: str
    begin: float
    end: float
    value: str = ""


@dataclass(slots=True)
class Position:
    """What a visitor sees; times are in seconds, `next_event` is None if nothing will happen."""

    now: float
    over: bool
    next_event: float | None
    clients: list[Client]
    keys: list[dict[str, Any]]
    bars: list[Bar]
    history: list[dict[str, Any]]
    violations: list[dict[str, Any]]


def position(
    scenario: Scenario, moves: Iterable[str], *, fixed: bool = False, say: Say = str
) -> Position:
    """Return the position after the moves; `Impossible` for a move that cannot be made."""
    what = scenario.experiment(fixed=fixed)
    world = _SteppedWorld(moves, scenario.flaw.faults)
    try:
        with inside_simulation(what.modules):
            run = run_in(what, world)
    except Stuck as problem:  # a fault that this kind of server does not have
        raise Impossible(str(problem)) from problem
    show = reader(run.history)
    times = [(who, "client", begin, end, "") for who, begin, end in _times(run.history, world.now)]
    times += [(who, "key", begin, end, show(value)) for who, begin, end, value in world.kept]
    return Position(
        world.now / MICROSECONDS,
        world.over,
        world.next_event,
        world.clients,
        world.keys,
        [
            Bar(who, kind, begin / MICROSECONDS, end / MICROSECONDS, value)
            for who, kind, begin, end, value in times
        ],
        [_line(item) for item in folded(rows(run.history, say))],
        [values_of(one) | {"why": said(one.why, say)} for one in run.violations],
    )


def _line(item: Row | tuple[int, int]) -> dict[str, Any]:
    """Return a line of the history, or how many like the ones before follow until when."""
    if isinstance(item, tuple):
        return {"kind": "more", "count": item[0], "at": item[1] / MICROSECONDS}
    return values_of(item)


class _SteppedWorld(World):
    """A world that makes the given moves, stands still, and notes what a visitor sees.

    Time passes by itself only when no client can act.  `over`: nothing can happen any more.
    """

    def __init__(self, moves: Iterable[str], faults: FaultModel) -> None:
        super().__init__(Scheduler())
        self.over = False
        self.clients: list[Client] = []
        self.keys: list[dict[str, Any]] = []
        self.kept: list[tuple[str, int, int, Any]] = []
        self.next_event: float | None = None
        self._keeps: dict[str, tuple[Any, int, int | None]] = {}  # value, since when, its end
        self._left: Iterator[tuple[int, str]] = enumerate(moves, start=1)
        self._faults = faults

    def run(self) -> None:
        self.on_end.append(self._look)  # the last of the listeners
        super().run()

    # -- moves

    def _events(self) -> list[int]:
        """Return when something will happen by itself: a wait, a pause or a lease ends."""
        found = {thread.due for thread in self.threads if not thread.ready and thread.due}
        found |= {thread.process.paused_until for thread in self.threads}
        for server in self.servers.values():
            found |= set(server.ends())
        return sorted(at for at in found if self.now < at <= HORIZON)

    def _next(self) -> Thread | None:
        while True:
            able = sorted(self._runnable(), key=lambda one: one.order)
            quick = [thread for thread in able if not thread.stepping]
            if quick:
                return quick[0]
            if not able and not self._let_time_pass():
                self.over = True
                return None
            if able:
                number, move = next(self._left, (0, ""))
                if not move:
                    del self.on_end[:-1]  # the monitor's: the run is not over
                    return None
                try:
                    thread = self._make(move, able)
                except Impossible as problem:
                    raise Impossible(str(problem), number) from None
                if thread is not None:
                    return thread

    def _make(self, move: str, able: list[Thread]) -> Thread | None:
        if move == TIME:
            events = self._events()
            if not events:
                raise Impossible("nothing will happen by itself")
            self.now = events[0]
            return None
        if move in SERVER_ACTS:
            target, length = next(iter(self._faults.targets), ""), self._faults.seconds[0]
            act, anyone = SERVER_ACTS[move], able[0]
            here = Deviation(anyone.process.name, "", 0, act, target, length)
            return self._apply_fault(here, anyone)
        name = move.rstrip("!~?<>")
        living = [thread for thread in self.threads if thread.process.name == name]
        if not living:
            raise Impossible(f"{name} is not there")
        mark = move[len(name) :]
        if mark in ("!", "~"):
            act = Act.CRASH if mark == "!" else Act.PAUSE
            return self._apply_fault(Deviation(name, "", 0, act, "", PAUSE), living[0])
        mine = [thread for thread in able if thread.process.name == name]
        if not mine:
            raise Impossible(f"{name} cannot act now")
        mine[0].effect = next((act for act, one in LOSSES.items() if one == mark), None)
        mine[0].process.faults += bool(mark)
        return self._take(mine[0])

    # -- what a visitor sees

    def _resume(self, thread: Thread) -> None:
        super()._resume(thread)
        self._watch()

    def _apply_fault(self, deviation: Deviation, thread: Thread) -> Thread | None:
        chosen = super()._apply_fault(deviation, thread)
        self._watch()
        return chosen

    def _watch(self) -> None:
        """Note which of the lock's keys have come, changed or gone."""
        seen = {
            f"{server.name}: {readable(key)}": (_flat(value), end)
            for server in self.servers.values()
            for key, value, end in server.contents()
            if readable(key).endswith((KEY, LOCK_KEY))
        }
        for name, (value, *_) in list(self._keeps.items()):
            if name not in seen or seen[name][0] != value:
                self._close(name)
        for name, (value, end) in seen.items():
            _, since, _ = self._keeps.get(name, (value, self.now, end))
            self._keeps[name] = (value, since, end)

    def _close(self, name: str) -> None:
        value, since, end = self._keeps.pop(name)
        end = self.now if end is None else min(self.now, end)
        if end > since:
            self.kept.append((name, since, end, value))

    def _look(self) -> None:
        self.over = self.over or self.stopped
        events = [] if self.over else self._events()
        self.next_event = events[0] / MICROSECONDS if events else None
        steps = [Event(self.now, "", Kind.NOTE, one.about) for one in self.threads if one.stepping]
        show = reader(self.history + steps)  # a step names its token before the history does
        inside = [who for who, _, end in _times(self.history, HORIZON) if end == HORIZON]
        for name in list(self._keeps):
            self._close(name)
        for process in self.processes.values():
            self.clients.append(self._client(process, process.name in inside, show))
        for server in self.servers.values():
            for key, value, end in server.contents():
                left = None if end is None else (end - self.now) / MICROSECONDS
                shown = {"key": show(key), "value": show(_flat(value)), "left": left}
                self.keys.append({"server": server.name, **shown})

    def _client(self, process: Process, inside: bool, show: Callable[[Any], str]) -> Client:
        mine = [thread for thread in self.threads if thread.process is process]
        found = Client(process.name, "dead" if process.crashed else "done", inside=inside)
        if not mine or process.crashed:
            return found
        thread = min(mine, key=lambda one: (not (one.ready and one.stepping), one.daemon))
        if process.paused_until > self.now:
            found.state, found.until = "paused", process.paused_until / MICROSECONDS
        elif thread.ready:
            found.state = "ready"
        else:
            found.state = "waiting" if thread.greenlet else "new"
            found.until = None if thread.due is None else thread.due / MICROSECONDS
        frame = _frame(thread.greenlet.gr_frame)
        if frame is not None:
            path = frame.f_code.co_filename
            found.file = short_path(path)
            found.line = frame.f_lineno
            found.code = linecache.getline(path, frame.f_lineno).strip()
        if thread.stepping:
            found.command = show(thread.about)
        return found


def short_path(path: str | Path) -> str:
    """Return a file's path as a reader of the project knows it."""
    file = Path(path)
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else file.name


def _flat(value: Any) -> Any:
    """Return a value of a server as a copy, a hash or sorted set as a list."""
    if isinstance(value, dict):
        return [word for pair in value.items() for word in pair]
    return value.copy() if isinstance(value, list) else value


@cache
def _files() -> set[str]:
    return {str(module.__file__) for module in modules()}


def _frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the lock's code."""
    while frame is not None and frame.f_code.co_filename not in _files():
        frame = frame.f_back
    return frame


def _times(history: list[Event], now: int) -> list[tuple[str, int, int]]:
    """Return when each client believed that it held the lock; `now` ends what lasts."""
    found, since = [], dict[str, int]()
    for event in history:
        if event.kind is Kind.ENTER:
            since[event.who] = event.at
        left = event.kind is Kind.LEAVE or (event.kind is Kind.FAULT and event.what == "crashes")
        if left and event.who in since:
            found.append((event.who, since.pop(event.who), event.at))
    return found + [(who, begin, now) for who, begin in since.items()]
