"""The fault that fills the database's disk.

The database is on a small tmpfs, and a file takes all its free space: the server gets ENOSPC as on
any full disk. Nothing else is on that tmpfs, so nothing else is affected.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import psycopg

from loadtest.fault_needs import DISK
from loadtest.faults.fault import wait_until
from loadtest.faults.postgres import Postgres, answers, connect

FILLER = "filler"
STEPS = (64 << 20, 1 << 20, 64 << 10, 4 << 10)
"""Bytes allocated at once, in decreasing steps, until nothing is free."""


class DiskFull(Postgres):
    """No room for another page: the server refuses to write, or stops."""

    name = "disk-full"
    what = "the database's disk is full"
    expected = "errors, no false ok"
    needs = frozenset({DISK})

    def inject(self) -> None:  # noqa: D102
        self.did |= {**fill(self.target.disk), "a write": self._write()}

    def _write(self) -> str:
        """Return the server's answer to a write of more than a page."""
        try:
            with connect(self.target.database) as connection:
                connection.execute("CREATE TEMP TABLE filler AS SELECT generate_series(1, 9999)")
        except psycopg.Error as error:
            return type(error).__name__
        return "succeeded"

    def heal(self) -> None:  # noqa: D102
        empty(self.target.disk)
        wait_until("PostgreSQL answers", lambda: answers(self.target.database))


def fill(folder: str) -> dict[str, int]:
    """Take all the free space of the file system of a folder; return how much was and is left."""
    descriptor = os.open(Path(folder) / FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        taken = 0
        for step in STEPS:
            taken = _fill(descriptor, taken, step)
    finally:
        os.close(descriptor)
    statistics = os.statvfs(folder)
    return {"bytes taken": taken, "bytes left": statistics.f_bavail * statistics.f_frsize}


def empty(folder: str) -> None:
    """Give back what `fill` took."""
    (Path(folder) / FILLER).unlink(missing_ok=True)


def _fill(descriptor: int, taken: int, step: int) -> int:
    while True:
        try:
            os.posix_fallocate(descriptor, taken, step)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return taken
        taken += step
