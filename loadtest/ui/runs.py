"""The folders of the last runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadtest.checker.snapshot import Header, Item, write
from loadtest.steps import RunFiles

KEPT = 10
# Snapshots per run; when there are more, every second one is deleted and the rate is halved.
MAX_SNAPSHOTS = 400


class RunFolder(RunFiles):
    """The files of one run of the page, including its description and verdict."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.number = int(path.name)
        self._taken = 0
        self._every = 1
        # The first snapshot of each way in which the books were wrong: the verdict needs it.
        self._wrong: dict[tuple[bool, bool], Path] = {}

    def look(self, figures: dict[str, Any], at: int) -> None:
        """Store the figures of a moment (ns of the monotonic clock) as a snapshot, thinning out."""
        self._taken += 1
        names = ("total", "available", "held", "confirmed", "ledger_sum", "fence")
        item = Item(str(figures["item"]), **{name: figures[name] for name in names})
        path = self.path / f"during-{self._taken:06}.snapshot"
        wrong = _wrong(item)
        is_new = any(wrong) and wrong not in self._wrong
        if is_new:
            self._wrong[wrong] = path
        elif self._taken % self._every:
            return
        write(path, Header(at), [item])
        if len(kept := self.during()) > MAX_SNAPSHOTS:
            for old in kept[::2]:
                if old not in self._wrong.values():
                    old.unlink()
            self._every *= 2

    def describe(self, description: dict[str, Any]) -> None:
        """Write what is to be judged; see `judge.py`."""
        (self.path / "run.json").write_text(json.dumps(description, indent=2) + "\n")

    def description(self) -> dict[str, Any]:
        """Return what `describe` has written."""
        found: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        return found

    def verdict(self) -> dict[str, Any] | None:
        """Return the verdict, if there is one."""
        try:
            found: dict[str, Any] = json.loads((self.path / "verdict.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return found


def _wrong(item: Item) -> tuple[bool, bool]:
    """Whether more was sold than there is (P1), and whether the sums do not fit (P2)."""
    live = item.held + item.confirmed
    oversold = item.available < 0 or live > item.total
    return oversold, item.available + live != item.total or item.ledger_sum != item.available


class Runs:
    """The folders of the last runs, by number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> RunFolder:
        """Create the folder of the next run; delete the oldest."""
        kept = list(self)
        for old in kept[: max(0, len(kept) + 1 - KEPT)]:
            shutil.rmtree(old.path, ignore_errors=True)
        number = kept[-1].number + 1 if kept else 1
        path = self._folder / f"{number:04}"
        path.mkdir(parents=True)
        return RunFolder(path)

    def find(self, number: int) -> RunFolder | None:
        """Return the run of that number, if it still exists."""
        return next((each for each in self if each.number == number), None)

    def __iter__(self) -> Iterator[RunFolder]:
        paths = self._folder.glob("*") if self._folder.exists() else ()
        found = [RunFolder(path) for path in paths if path.is_dir() and path.name.isdecimal()]
        return iter(sorted(found, key=lambda each: each.number))
