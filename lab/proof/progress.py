"""Progress of a running proof: its calls, counted while the history grows, and its stock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.db import Error

from inventory.selling.commit import forget_connection
from lab.proof import snapshot
from loadtest.checker.snapshot import Item
from loadtest.steps import RunFiles


@dataclass(slots=True)
class Progress:
    """What is going on, for the terminal.

    Attributes:
        calls: by outcome, see :class:`Tally`.
        fault: what is being injected now; empty if nothing is.
        injected: number of faults so far.
        restocked: number of restocks so far.
        rate: calls per second over the last looks.
    """

    phase: str
    seconds: float = 0.0
    item: Item | None = None
    owed: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    fault: str = ""
    injected: int = 0
    restocked: int = 0
    rate: float = 0.0


LATELY = 8
"""Number of looks over which the rate is taken: some seconds."""

EVENTS = ("invoke", "ok", "fail", "info")
_STARTS = {event: f'{{"event":"{event}"'.encode() for event in EVENTS}


class Tally:
    """Counts calls by how they ended; each look reads only what is new.

    Args:
        folder: of the history.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._at: deque[tuple[float, int]] = deque(maxlen=LATELY)
        self.counts = dict.fromkeys(EVENTS, 0)

    @property
    def rate(self) -> float:
        """Calls begun per second, over the last looks."""
        if len(self._at) < 2:
            return 0.0
        (since, before), (now, calls) = self._at[0], self._at[-1]
        return (calls - before) / (now - since)

    def look(self) -> dict[str, int]:
        """Calls by event: begun (`invoke`), and ended by outcome."""
        for path in self._folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            # Whole lines only: the rest comes with the next look.
            data = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(data)
            for event, start in _STARTS.items():
                self.counts[event] += data.count(start)
        self._at.append((time.monotonic(), self.counts["invoke"]))
        return dict(self.counts)


MAX_SNAPSHOTS = 200
"""Snapshots kept during a run, spread over the time that it is to last."""


class During:
    """Takes snapshots, which are judged as the final one is.

    Args:
        sales: ids; the first is shown.
        files: of the run.
        seconds: that the run takes, about.
    """

    def __init__(self, sales: Sequence[int], files: RunFiles, seconds: float) -> None:
        self._sales, self._files = sales, files
        self._pause = seconds / MAX_SNAPSHOTS
        self._next = 0.0
        self._taken = 0

    def look(self) -> Item | None:
        """Read the first sale's item; None if the database does not answer now."""
        try:
            if self._taken < MAX_SNAPSHOTS and time.monotonic() >= self._next:
                path = self._files.path / f"during-{self._taken:03}.snapshot"
                try:
                    snapshot.write(path, self._sales, items_only=True)
                except Error:
                    path.unlink()
                    raise
                self._taken += 1
                self._next = time.monotonic() + self._pause
            return snapshot.read_item(self._sales[0])
        except Error:
            forget_connection()
            return None
