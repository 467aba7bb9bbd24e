"""The answers so far: the history's events, counted while it grows."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

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
