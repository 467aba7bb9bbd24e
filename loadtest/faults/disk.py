"""The database's disk filled up.

The database lives on a small tmpfs of its own, and a file takes all of the room that is left: the
server meets ENOSPC as on any full disk. Nothing else lies on it, so nothing else is hit.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import psycopg

from loadtest.faults.fault import wait_until
from loadtest.faults.postgres import Postgres, answers, connect
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
        left = statistics.f_bavail * statistics.f_frsize
        self.did |= {"bytes taken": taken, "bytes left": left, "a write": self._write()}

    def _write(self) -> str:
        """What the server says to somebody who wants to write more than a page."""
        try:
            with connect(self.target.database) as connection:
                connection.execute("CREATE TEMP TABLE filler AS SELECT generate_series(1, 9999)")
        except psycopg.Error as error:
            return type(error).__name__
        return "went through"

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
