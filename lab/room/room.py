"""The room: reads everything once for all viewers, and keeps the last minute."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from lab.room.readings import AWAY, TOTALS, Books, Processes, Source, Stock, read_lock

EVERY = 0.2
"""Seconds between two frames while somebody watches, and between two readings: together a commit is
in the picture within half a second."""

IDLE = 1.0
"""Seconds between two frames while nobody watches: enough for the timeline."""

HISTORY = 300
"""Frames of which a page that is opened late gets the figures: one minute."""

CURVES = ("accepted", "refused", "failed", "p50", "p99", "batch")
"""Figures of a frame that are drawn over time; `SALE_CURVES` are those of the sale."""

SALE_CURVES = ("available", "reserved", "sold", "oversold")


SERVERS = ("postgres", "redis")
"""Servers that are asked themselves whether they answer."""

EVENTS_KEPT = 100
"""Events that a page shows when it is opened."""


class Timeline:
    """The last events. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._last = 0

    def add(self, code: str, **values: Any) -> None:
        """Add an event that happens now.

        Args:
            code: which; `lab/room/texts.py` has its sentence.
            values: what the sentence mentions.
        """
        with self._lock:
            self._last += 1
            self._events.append(
                {"id": self._last, "at": time.time(), "code": code, "values": values}
            )

    def clear(self) -> None:
        """Forget the events; the next one goes on counting."""
        with self._lock:
            self._events.clear()

    def since(self, last: int) -> list[dict[str, Any]]:
        """Return the events after the one with the id `last`, oldest first."""
        with self._lock:
            return [event for event in self._events if event["id"] > last]


class Changes:
    """Adds an event for each change between two frames."""

    def __init__(self, timeline: Timeline) -> None:
        self._add = timeline.add
        self._up: dict[str, bool] = {}
        self._web: dict[str, dict[str, Any]] | None = None
        self._programs: dict[str, int] = {}
        self._sale: dict[str, Any] | None = None
        self._stale = 0

    def see(self, frame: dict[str, Any]) -> None:
        """Compare a frame with the one before."""
        for server, up in frame["up"].items():
            # Until it has answered once, the room is starting.
            if self._up.get(server, up) != up:
                self._add("back" if up else "away", server=server)
            if up or server in self._up:
                self._up[server] = up
        if frame["stale"] > self._stale and self._web is not None:
            self._add("stale_token", count=frame["stale"] - self._stale)
        self._stale = frame["stale"]
        self._see_processes({each["pid"]: each for each in frame["web"]})
        self._see_programs({name: each["pid"] for name, each in frame["programs"].items()})
        before, sale = self._sale, frame["sale"]
        if sale and before and before["id"] == sale["id"]:
            self._see_sale(before, sale)
        elif sale:
            self._add("sale", sale=sale["id"], strategy=sale["strategy"], units=sale["total"])
        self._sale = sale

    def _see_processes(self, web: dict[str, dict[str, Any]]) -> None:
        if self._web is not None:
            for pid in self._web.keys() - web.keys():
                self._add("worker_gone", pid=pid)
            for pid in web.keys() - self._web.keys():
                self._add("worker_new", pid=pid)
            for pid in web.keys() & self._web.keys():
                before, after = self._web[pid], web[pid]
                if before["without_redis"] != after["without_redis"]:
                    code = "without_redis" if after["without_redis"] else "with_redis"
                    self._add(code, pid=pid)
        self._web = web

    def _see_programs(self, pids: dict[str, int]) -> None:
        for name, pid in pids.items():
            before = self._programs.get(name, pid)
            if before and before != pid:
                self._add("program_gone", server=name, pid=before)
            if pid and before != pid:
                self._add("program_new", server=name, pid=pid)
        self._programs = pids

    def _see_sale(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        pk = after["id"]
        if before["starts_in"] > 0 >= after["starts_in"]:
            self._add("opened", sale=pk)
        if before["available"] > 0 == after["available"]:
            self._add("sold_out", sale=pk)
        if after["total"] > before["total"]:
            self._add("restocked", sale=pk, units=after["total"] - before["total"])
        if before["paused"] != after["paused"]:
            self._add("paused" if after["paused"] else "resumed", sale=pk)
        if before["strategy"] != after["strategy"]:
            self._add("strategy", sale=pk, strategy=after["strategy"])
        if not before["oversold"] and after["oversold"]:
            self._add("oversold", sale=pk)
        if bool(before.get("problems")) != bool(after.get("problems")):
            code = "books_wrong" if after.get("problems") else "books_right"
            self._add(code, sale=pk, problem=(after.get("problems") or [""])[0])


class Refused(Exception):
    """An action is impossible now; the message says why. `status` is the answer's."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.CONFLICT) -> None:
        super().__init__(message)
        self.status = status


class Task:
    """Runs one function at a time, each in a thread of its own.

    Args:
        busy: why another one cannot run meanwhile.

    Attributes:
        end: set when what runs has to end; the function looks at it.
    """

    def __init__(self, busy: str) -> None:
        self._busy = busy
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.end = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether something runs."""
        return self._thread is not None and self._thread.is_alive()

    def require_idle(self) -> None:
        """Return if nothing runs.

        Raises:
            Refused: something does.
        """
        if self.busy:
            raise Refused(self._busy)

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Start a function.

        Raises:
            Refused: one runs already.
        """
        with self._lock:
            self.require_idle()
            self.end.clear()
            self._thread = threading.Thread(target=work, args=arguments)
            self._thread.start()

    def stop(self) -> None:
        """Let it end, and return when it has."""
        self.end.set()
        if self._thread is not None:
            self._thread.join()


class Room:
    """Composes a frame a few times per second and hands it to everybody who waits.

    Args:
        programs: reads the programs that a supervisor keeps alive; see `readings.Programs`.

    Attributes:
        timeline: the events.
        offered: returns the names of the faults that are possible here.
        missing: returns those that are not, with what they lack; see `FaultControl.missing`.
        chosen: id of the watched sale; None means the newest sale.
        viewers: how many watch now.
    """

    def __init__(self, programs: Callable[[], dict[str, Any]] = dict) -> None:
        self.timeline = Timeline()
        self._state: dict[str, Any] = {}
        self._counted: dict[str, int] = {}
        self.offered: Callable[[], list[str]] = list
        self.missing: Callable[[], list[dict[str, str]]] = list
        self.chosen: int | None = None
        self._changes = Changes(self.timeline)
        self.viewers = 0
        self._changed = threading.Condition()
        self._frame: dict[str, Any] = {}
        self._number = 0
        self._history: deque[dict[str, Any]] = deque(maxlen=HISTORY)
        self._end = threading.Event()
        self.sources = {
            "postgres": Source(Stock(lambda: self.chosen).read, self.pause),
            "books": Source(Books(self._item).read, self.pause),
            "redis": Source(lambda: read_lock(self._item()), self.pause),
            "web": Source(Processes().read, self.pause),
            "programs": Source(programs, self.pause),
        }
        self._thread = threading.Thread(target=self._run, name="frames", daemon=True)

    def start(self) -> None:
        """Start to read."""
        for source in self.sources.values():
            source.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop, and let everybody who waits go."""
        self._end.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        for source in self.sources.values():
            source.stop()

    def pause(self) -> float:
        """Return the seconds between two readings now."""
        return EVERY if self.viewers else IDLE

    def show(self, name: str, what: Any) -> None:
        """Show something in every frame from now on, such as the current fault; None: no more."""
        with self._changed:
            # A new one, because a frame may be reading the old one.
            others = {key: value for key, value in self._state.items() if key != name}
            self._state = others if what is None else {**others, name: what}

    def begin_rush(self, sale: int, buyers: int) -> None:
        """Show a rush that begins, and nothing of the one before."""
        for name in ("card", "fault_over"):
            self.show(name, None)
        self.show("rush", {"sale": sale, "buyers": buyers})

    def empty(self) -> None:
        """Forget what was shown and what has happened; follow the newest sale."""
        self.chosen = None
        for name in ("card", "fault_over", "provider"):
            self.show(name, None)
        self.timeline.clear()
        with self._changed:
            self._history.clear()

    def show_fault(self, fault: dict[str, Any]) -> None:
        """Show a fault, and from now on what web processes count while it acts."""
        if fault["phase"] == "acts":
            self._counted = self.totals()
        self.show("fault", fault)

    def totals(self) -> dict[str, int]:
        """Return what all web processes have counted so far, by name; see `readings.TOTALS`."""
        found: dict[str, int] = self.sources["web"].now().value.get("totals", {})
        return found

    def fault_counts(self) -> dict[str, int]:
        """Return what they have counted since the current fault acts."""
        now = self.totals()
        return {name: max(0, now.get(name, 0) - self._counted.get(name, 0)) for name in TOTALS}

    def token_of(self, pid: str) -> int | None:
        """Return the fencing token with which a process holds the item's lock, if it does."""
        try:
            lock = read_lock(self._item())
        except AWAY:
            return None
        return lock["token"] if lock["holder"] == pid else None

    def last_token(self) -> int:
        """Return the fencing token of the last holder that has written to the watched item."""
        sale = self.sources["postgres"].now().value.get("sale")
        return sale["fence"] if sale else 0

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Count a viewer during the block."""
        with self._changed:
            self.viewers += 1
        try:
            yield
        finally:
            with self._changed:
                self.viewers -= 1

    def next(self, last: int) -> tuple[int, dict[str, Any]]:
        """Wait for a frame later than the one numbered `last`; return its number and the frame.

        While the room stops, the same one again.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._number > last or self._end.is_set(), timeout=5)
            return self._number, self._frame

    @property
    def ended(self) -> bool:
        """Whether the room has been stopped."""
        return self._end.is_set()

    def greeting(self) -> dict[str, Any]:
        """Return what a page needs that has just been opened: the last minute."""
        with self._changed:
            history = list(self._history)
        return {
            "history": history,
            "events": self.timeline.since(0),
            "faults": self.offered(),
            "missing": self.missing(),
            "duel": self._state.get("duel"),
        }

    def step(self) -> None:
        """Compose one frame from the sources' last readings."""
        frame = self._compose()
        self._changes.see(frame)
        with self._changed:
            self._number += 1
            self._frame = frame
            self._history.append(curves(frame))
            self._changed.notify_all()

    def _compose(self) -> dict[str, Any]:
        now = {name: source.now() for name, source in self.sources.items()}
        sale, slow, web = now["postgres"].value.get("sale"), now["books"].value, now["web"].value
        if sale and slow.get("item") == sale["item"]:
            sale = sale | slow["books"]
        state = self._state
        if "fault" in state and state["fault"]["phase"] != "armed":
            state = {**state, "fault": {**state["fault"], "counts": self.fault_counts()}}
        return {
            "at": round(time.time(), 3),
            "up": {name: now[name].up for name in SERVERS},
            "silent": {name: round(now[name].silent, 1) for name in SERVERS if not now[name].up},
            "programs": now["programs"].value if now["programs"].up else {},
            "sale": sale,
            "recent": slow.get("recent", []),
            "pending": {"messages": slow.get("outbox", 0), "mails": slow.get("mails", 0)},
            "lock": now["redis"].value if now["redis"].up else None,
            "web": web.get("web", []),
            "stale": web.get("stale", 0),
            "rates": {name: web.get(name) for name in (*CURVES, "batches")},
            "follows": self.chosen is None,
            **state,
        }

    def _item(self) -> int:
        sale = self.sources["postgres"].now().value.get("sale")
        return sale["item"] if sale else 0

    def _run(self) -> None:
        while not self._end.is_set():
            self.step()
            self._end.wait(self.pause())


def curves(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a frame that are drawn over time."""
    sale, fault = frame["sale"], frame.get("fault")
    return {
        "at": frame["at"],
        "fault": fault["name"] if fault and fault["phase"] != "armed" else None,
        "rates": {name: frame["rates"][name] for name in CURVES},
        "sale": sale and {name: sale.get(name) for name in ("id", *SALE_CURVES)},
    }


def encode(event: str, document: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"event: {event}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()
