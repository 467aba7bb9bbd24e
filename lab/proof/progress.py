"""Progress of a running proof: its calls, counted while the history grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


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
