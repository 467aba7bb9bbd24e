"""The database's disk filled up.

The database lives on a small tmpfs of its own, and a file takes all of the room that is left: the
server meets ENOSPC as on any full disk. Nothing else lies on it, so nothing else is hit.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from loadtest.faults.fault import wait_until
from loadtest.faults.postgres import Postgres, answers
from loadtest.faults.target import DISK

FILLER = "filler"
STEPS = (64 << 20, 1 << 20, 64 << 10, 4 << 10)
"""Bytes taken at once, in ever smaller steps, until nothing is left."""


class DiskFull(Postgres):
    """No room for another page: the server refuses to write, or stops altogether."""

    name = "disk-full"
    what = "the database's disk is full"
    expected = "errors, no false ok"
    needs = frozenset({DISK})

    def inject(self) -> None:  # noqa: D102
        path = Path(self.target.disk) / FILLER
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            taken = 0
            for step in STEPS:
                taken = _fill(descriptor, taken, step)
        finally:
            os.close(descriptor)
        statistics = os.statvfs(self.target.disk)
        self.did |= {"bytes taken": taken, "bytes left": statistics.f_bavail * statistics.f_frsize}

    def heal(self) -> None:  # noqa: D102
        (Path(self.target.disk) / FILLER).unlink(missing_ok=True)
        wait_until("PostgreSQL answers", lambda: answers(self.target.database))


def _fill(descriptor: int, taken: int, step: int) -> int:
    while True:
        try:
            os.posix_fallocate(descriptor, taken, step)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return taken
        taken += step
