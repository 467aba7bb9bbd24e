"""A position of a run: what each client is about to do, what the servers keep, who held the lock.

A position is a function of the scenario and the moves, so it needs no session: an address that
contains the moves shows the same position to everyone.
"""

import linecache
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from course.lesson import Scenario, modules
from course.moves import Impossible, SteppedWorld
from course.simulator.history import MICROSECONDS, Event, Kind
from course.simulator.process import Process, Thread
from course.simulator.production import LOCK_KEY
from course.simulator.schedule import Deviation
from course.simulator.simulation import KEY, run_in
from course.simulator.timeline import Row, as_json, folded, readable, reader, rows, violations_json
from course.simulator.virtual import inside_simulation
from course.simulator.world import Stuck

ROOT = Path(__file__).resolve().parents[1]


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

    def as_values(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def position(scenario: Scenario, moves: Iterable[str], *, mended: bool = False) -> Position:
    """Return the position after the moves; `Impossible` for a move that cannot be made."""
    model = scenario.flaw.faults
    target = next(iter(model.targets), "")
    what = scenario.experiment(mended=mended)
    world = _ObservedWorld(moves, target=target, seconds=next(iter(model.seconds), 15.0))
    try:
        with inside_simulation(what.modules):
            run = run_in(what, world)
    except Stuck as problem:  # a fault that this kind of server does not have
        raise Impossible(str(problem)) from problem
    show = reader(run.history)
    times = _times(run.history, world.now)
    bars = [_bar(who, "client", begin, end) for who, begin, end in times]
    bars += [
        _bar(who, "key", begin, end, show(_flat(value))) for who, begin, end, value in world.kept
    ]
    return Position(
        world.now / MICROSECONDS,
        world.over,
        world.next_event,
        world.clients,
        world.keys,
        bars,
        [_line(item) for item in folded(rows(run.history))],
        violations_json(run.violations),
    )


def _bar(who: str, kind: str, begin: int, end: int, value: str = "") -> Bar:
    return Bar(who, kind, begin / MICROSECONDS, end / MICROSECONDS, value)


def _line(item: Row | tuple[int, int]) -> dict[str, Any]:
    """Return a line of the history, or how many like the ones before follow until when."""
    if isinstance(item, tuple):
        return {"kind": "more", "count": item[0], "at": item[1] / MICROSECONDS}
    (values,) = as_json([item])
    return values


@dataclass(slots=True)
class _Kept:
    value: Any
    begin: int
    end: int | None


class _ObservedWorld(SteppedWorld):
    """A stepped world that looks at the clients and the servers before it ends."""

    def __init__(self, moves: Iterable[str], *, target: str, seconds: float) -> None:
        super().__init__(moves, target=target, seconds=seconds)
        self.clients: list[Client] = []
        self.keys: list[dict[str, Any]] = []
        self.kept: list[tuple[str, int, int, Any]] = []
        self.next_event: float | None = None
        self._now_kept: dict[str, _Kept] = {}

    def run(self) -> None:
        self.on_end.append(self._look)  # the last of the listeners
        super().run()

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
            f"{server.name}: {readable(key)}": (value, end)
            for server in self.servers.values()
            for key, value, end in server.contents()
            if readable(key).endswith((KEY, LOCK_KEY))
        }
        for name, kept in list(self._now_kept.items()):
            if name not in seen or seen[name][0] != kept.value:
                self._close(name, self.now)
        for name, (value, end) in seen.items():
            known = self._now_kept.setdefault(name, _Kept(_copy(value), self.now, end))
            known.end = end

    def _close(self, name: str, at: int) -> None:
        kept = self._now_kept.pop(name)
        end = at if kept.end is None else min(at, kept.end)
        if end > kept.begin:
            self.kept.append((name, kept.begin, end, kept.value))

    def _look(self) -> None:
        self.over = self.over or self.stopped
        events = [] if self.over else self.events()
        self.next_event = events[0] / MICROSECONDS if events else None
        show, inside = reader(self.history), _holding(self.history)
        for name in list(self._now_kept):
            self._close(name, self.now)
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
    return [word for pair in value.items() for word in pair] if isinstance(value, dict) else value


def _copy(value: Any) -> Any:
    """Return a value that does not change with the server's: hashes and lists do, in place."""
    return value.copy() if isinstance(value, dict | list) else value


@cache
def _files() -> set[str]:
    return {str(module.__file__) for module in modules()}


def _frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the lock's code."""
    while frame is not None and frame.f_code.co_filename not in _files():
        frame = frame.f_back
    return frame


def _holding(history: list[Event]) -> dict[str, int]:
    """Return who believes at the end that it holds the lock, and since when."""
    return {bar[0]: bar[1] for bar in _times(history, -1) if bar[2] == -1}


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
