"""Progress of a running proof: its calls, counted while the history grows, and its snapshots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.db import Error

from inventory.selling.commit import forget_connection
from lab.proof import snapshot
from loadtest.steps import RunFiles


@dataclass(slots=True)
class Progress:
    """What is going on, for the terminal.

    Attributes:
        calls: by event, see `Tally`.
        fault: what is being injected now; empty if nothing is.
        injected: number of faults so far.
    """

    phase: str
    seconds: float = 0.0
    owed: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    fault: str = ""
    injected: int = 0


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
        self.counts = dict.fromkeys(EVENTS, 0)

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
        return dict(self.counts)


MAX_SNAPSHOTS = 200
"""Snapshots kept during a run, spread over the time that it is to last."""


class During:
    """Takes snapshots, which are judged as the final one is.

    Args:
        sales: ids.
        files: of the run.
        seconds: that the run takes, about.
    """

    def __init__(self, sales: Sequence[int], files: RunFiles, seconds: float) -> None:
        self._sales, self._files = sales, files
        self._pause = seconds / MAX_SNAPSHOTS
        self._next = 0.0
        self._taken = 0

    def look(self) -> None:
        """Take a snapshot if one is due and the database answers."""
        if self._taken == MAX_SNAPSHOTS or time.monotonic() < self._next:
            return
        path = self._files.path / f"during-{self._taken:03}.snapshot"
        try:
            snapshot.write(path, self._sales, items_only=True)
        except Error:
            path.unlink()
            forget_connection()
            return
        self._taken += 1
        self._next = time.monotonic() + self._pause
