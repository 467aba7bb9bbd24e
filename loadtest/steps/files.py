"""The files of a run, the snapshots taken meanwhile, and the folders of a page's last runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadtest.checker.snapshot import Header, Item, write


class RunFiles:
    """The folder of one run: histories, snapshots, ledger, mails, terms, faults, the report."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.final = path / "final.snapshot"
        self.ledger = path / "ledger.snapshot"
        self.deliveries = path / "deliveries.snapshot"
        self.terms = path / "terms.snapshot"
        # The history of what was asked when all was at rest.
        self.again = path / "again.jsonl"
        # Not among the histories, which are all `*.jsonl`.
        self.faults = path / "faults.log"
        self.report = path / "report.html"

    def histories(self) -> list[Path]:
        """The histories that were written here."""
        return sorted(self.path.glob("*.jsonl"))

    def during(self) -> list[Path]:
        """The snapshots taken during the run, in their order."""
        return sorted(self.path.glob("during-*.snapshot"))

    def served(self) -> list[Path]:
        """What the shop's processes recorded of the purchases, if they were asked to."""
        return sorted(self.path.glob("*.served"))


MOST = 50_000
"""Buyers that a process keeps the tokens of: the first ones, a few megabytes."""

_SUFFIX = ".tokens"


def leave_tokens(history: Path, tokens: Mapping[str, str]) -> None:
    """Write tokens by buyer beside a history, for this user only."""
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


MAX_SNAPSHOTS = 400
"""Per run; when there are more, every second one is deleted and the rate is halved."""


class During:
    """Stores snapshots of items.

    Args:
        files: of the run.
    """

    def __init__(self, files: RunFiles) -> None:
        self._files = files
        self._taken = 0
        self._every = 1
        # The first snapshot of each way in which the books were wrong: the verdict needs it.
        self._wrong: dict[tuple[bool, bool], Path] = {}

    def add(self, items: Sequence[Item], at: int) -> None:
        """Store the items of a moment (ns of the monotonic clock), thinning out."""
        self._taken += 1
        path = self._files.path / f"during-{self._taken:06}.snapshot"
        wrong = _wrong(items)
        is_new = any(wrong) and wrong not in self._wrong
        if is_new:
            self._wrong[wrong] = path
        elif self._taken % self._every:
            return
        write(path, Header(at), items)
        if len(kept := self._files.during()) > MAX_SNAPSHOTS:
            for old in kept[::2]:
                if old not in self._wrong.values():
                    old.unlink()
            self._every *= 2


def _wrong(items: Sequence[Item]) -> tuple[bool, bool]:
    """Whether more was sold than there is (P1), and whether the sums do not fit (P2)."""
    oversold = any(each.available < 0 or each.held + each.confirmed > each.total for each in items)
    unequal = any(_sum(each) != each.total or each.ledger_sum != each.available for each in items)
    return oversold, unequal


def _sum(item: Item) -> int:
    return item.available + item.held + item.confirmed
