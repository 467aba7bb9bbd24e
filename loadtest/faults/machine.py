"""Faults of the machine: its clock jumps, its disk is full.

The database is on a small tmpfs, and a file takes all its free space: the server gets ENOSPC as on
any full disk. Nothing else is on that tmpfs, so nothing else is affected.
"""

from __future__ import annotations

import errno
import json
import os
import time
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import psycopg

from loadtest.fault_needs import CLOCK, DISK
from loadtest.faults.fault import Fault, FaultFailed, wait_until
from loadtest.faults.postgres import answers, connect
from loadtest.shops.flash_sale import requests

STEP = 6 * 3600
"""Seconds that the clock jumps: longer than a proof's sale, shorter than a buyer's token lasts."""

FILLER = "filler"
ZEROS = bytes(1 << 20)
"""Written again and again, until nothing is free."""


class ClockStepped(Fault):
    """Steps the clock beyond the sale's end, or to before its start.

    The response's `Date` comes from the worker's clock and shows the step. The sale must stay open,
    because the database's clock decides on its window.
    """

    name = "clock-stepped"
    what = "the web processes' clock jumps by hours"
    expected = "sale windows are judged by one clock, the database's"
    needs = frozenset({CLOCK})

    def inject(self) -> None:  # noqa: D102
        step = self.random.choice([-STEP, STEP])
        Path(self.target.clock).write_text(f"{step:+d}\n")
        wait_until("a worker's clock has jumped", lambda: abs(self._ahead()) > STEP / 2, 10)
        self.did["ahead"] = round(self._ahead())
        self.did["sale"] = self._sale().get("status", "")
        if self.did["sale"] in ("not_started", "ended"):
            raise FaultFailed(f"with the clock stepped by {step} s the sale is {self.did['sale']}")

    def heal(self) -> None:  # noqa: D102
        Path(self.target.clock).write_text("+0\n")
        wait_until("the worker's clock is back", lambda: abs(self._ahead()) < STEP / 2, 10)

    def _ahead(self) -> float:
        """Return the seconds by which a worker's clock is ahead; 0 if none answers now."""
        try:
            address = self.target.web + requests.HEALTH.path
            with urllib.request.urlopen(address, timeout=5) as answer:
                date = parsedate_to_datetime(answer.headers["Date"])
        except OSError:
            return 0.0
        return (date - datetime.fromtimestamp(time.time(), UTC)).total_seconds()

    def _sale(self) -> dict[str, Any]:
        try:
            address = self.target.web + requests.look(str(self.target.sale)).path
            with urllib.request.urlopen(address, timeout=5) as answer:
                document: dict[str, Any] = json.load(answer)
        except OSError:
            return {}
        return document


class DiskFull(Fault):
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
    filler = Path(folder) / FILLER
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(ZEROS)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    statistics = os.statvfs(folder)
    left = statistics.f_bavail * statistics.f_frsize
    return {"bytes taken": filler.stat().st_size, "bytes left": left}


def empty(folder: str) -> None:
    """Give back what `fill` took."""
    (Path(folder) / FILLER).unlink(missing_ok=True)
