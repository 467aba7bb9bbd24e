"""The files of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


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
