"""The files of a run, the buyers' tokens next to them, and the folders of a page's last runs."""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def new_file(text: str) -> Path:
    """Parse the path of a result, before the run that takes minutes to find it.

    Raises:
        ArgumentTypeError: no file can be there.
    """
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentTypeError(f"{text!r} is not a file in a folder that exists")
    return path


class RunFiles:
    """The folder of one run: histories, snapshots, ledger, mails, terms, faults, the report.

    Attributes:
        elsewhere: histories of the run's buyers that are in another folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.elsewhere: list[Path] = []
        self.final = path / "final.snapshot"
        self.ledger = path / "ledger.snapshot"
        self.deliveries = path / "deliveries.snapshot"
        self.terms = path / "terms.snapshot"
        # The history of what was asked when all was at rest.
        self.again = path / "again.jsonl"
        # Not among the histories, which are all `*.jsonl`.
        self.faults = path / "faults.log"
        self.report = path / "report.html"
        # How it was judged, and what came of it.
        self.how = path / "judged.json"
        self.verdict_file = path / "verdict.json"

    def histories(self) -> list[Path]:
        """The histories that were written here or elsewhere."""
        return sorted({*self.path.glob("*.jsonl"), *self.elsewhere})

    def during(self) -> list[Path]:
        """The snapshots taken during the run, in their order."""
        return sorted(self.path.glob("during-*.snapshot"))


MOST = 50_000
"""Buyers that a process keeps the tokens of: the first ones, a few megabytes."""

_SUFFIX = ".tokens"


def leave_tokens(history: Path, tokens: Mapping[str, str]) -> None:
    """Write tokens by buyer next to a history, for this user only."""
    path = history.with_suffix(_SUFFIX)
    path.touch(mode=0o600)
    path.write_text(json.dumps(tokens))


def take_tokens(folder: Path) -> dict[str, str]:
    """Read the tokens of all processes of a run, and delete the files."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            found.update(json.loads(path.read_text()))
        except ValueError:
            continue  # a process that was killed while it wrote
        finally:
            path.unlink()
    return found


KEPT = 10


class RunFolder(RunFiles):
    """The files of one run of the page, including its description and verdict."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.number = int(path.name)

    def describe(self, description: dict[str, Any]) -> None:
        """Write what is to be judged; see `loadtest.judge_process`."""
        (self.path / "run.json").write_text(json.dumps(description, indent=2) + "\n")

    def description(self) -> dict[str, Any]:
        """Return what `describe` has written."""
        found: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        return found

    def verdict(self) -> dict[str, Any] | None:
        """Return the verdict, if there is one."""
        try:
            found: dict[str, Any] = json.loads(self.verdict_file.read_text())
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
        return next((folder for folder in self if folder.number == number), None)

    def __iter__(self) -> Iterator[RunFolder]:
        paths = self._folder.glob("*") if self._folder.exists() else ()
        found = [RunFolder(path) for path in paths if path.is_dir() and path.name.isdecimal()]
        return iter(sorted(found, key=lambda folder: folder.number))
