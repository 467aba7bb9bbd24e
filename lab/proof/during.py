"""Snapshots of a proof's sales while it runs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.db import Error

from inventory.selling.commit import forget_connection
from lab.proof import snapshot
from loadtest.checker.snapshot import Item
from loadtest.steps import RunFiles

MAX_SNAPSHOTS = 200
"""Snapshots kept during a run, spread over the time that it is to last."""


class During:
    """Takes snapshots, which are judged as the final one is.

    Args:
        sales: ids; the first is shown.
        files: of the run.
        seconds: that the run takes, about.
    """

    def __init__(self, sales: Sequence[int], files: RunFiles, seconds: float) -> None:
        self._sales, self._files = sales, files
        self._pause = seconds / MAX_SNAPSHOTS
        self._next = 0.0
        self._taken = 0

    def look(self) -> Item | None:
        """Read the first sale's item; None if the database does not answer now."""
        try:
            if self._taken < MAX_SNAPSHOTS and time.monotonic() >= self._next:
                path = self._files.path / f"during-{self._taken:03}.snapshot"
                try:
                    snapshot.write(path, self._sales, items_only=True)
                except Error:
                    path.unlink()
                    raise
                self._taken += 1
                self._next = time.monotonic() + self._pause
            return snapshot.read_item(self._sales[0])
        except Error:
            forget_connection()
            return None
