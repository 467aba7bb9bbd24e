"""The events of a sale, with their times: what was done, and what was seen to change."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

KEPT = 100
"""Events that a page shows when it is opened."""


class Timeline:
    """The last events. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=KEPT)
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
        self._sales: dict[int, dict[str, Any]] = {}
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
        for sale in frame["sales"]:
            before = self._sales.get(sale["id"])
            if before is None:
                self._add("sale", sale=sale["id"], strategy=sale["strategy"], units=sale["total"])
            else:
                self._see_sale(before, sale)
            self._sales[sale["id"]] = sale

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
