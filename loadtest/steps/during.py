"""The snapshots that are taken during a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadtest.checker.snapshot import Header, Item, write
from loadtest.files import RunFiles

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
