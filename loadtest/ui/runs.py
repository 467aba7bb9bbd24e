"""The folders of the last runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadtest.steps import RunFiles

KEPT = 10


class RunFolder(RunFiles):
    """The files of one run of the page, including its description and verdict."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.number = int(path.name)

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
