"""What the runs found, as JSON lines: the last line about a mutant and a way of looking counts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

import msgspec

from lab.mutants.catalogue import Mutant

Way = Literal["tests", "wide", "proof"]
Outcome = Literal["found", "missed", "unknown"]


class Result(msgspec.Struct, frozen=True):
    """A run of one mutant.

    Attributes:
        mutant: its name.
        digest: of its edits at that time.
        way: ``tests`` are the subject's own, ``wide`` those of its whole package.
        outcome: ``unknown`` (not judged) is not found.
        by: the first test that failed, or the properties that did; why it is unknown.
        seconds: how long the run took.
    """

    mutant: str
    digest: str
    way: Way
    outcome: Outcome
    by: str
    seconds: float


class Results:
    """The results in a file, which may be read and added to by several threads.

    Args:
        path: of the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._last: dict[tuple[str, Way], Result] = {}
        if path.exists():
            decode = msgspec.json.Decoder(Result).decode
            for line in path.read_text(encoding="utf-8").splitlines():
                found = decode(line)
                self._last[found.mutant, found.way] = found

    def of(self, mutant: Mutant, way: Way) -> Result | None:
        """The result about a mutant as it is in the catalogue now; None if there is none."""
        found = self._last.get((mutant.name, way))
        return found if found is not None and found.digest == mutant.digest else None

    def add(self, result: Result) -> None:
        """Write a result down at once: what is interrupted later keeps it."""
        with self._lock:
            self._last[result.mutant, result.way] = result
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(msgspec.json.encode(result).decode() + "\n")

    def tidy(self) -> None:
        """Rewrite the file with the last line of each, in order."""
        with self._lock:
            lines = [msgspec.json.encode(self._last[key]).decode() for key in sorted(self._last)]
            if lines:
                self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
