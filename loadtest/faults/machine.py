"""Faults of Celery, of the mail server, and of the machine: its clock jumps, its disk is full.

The database is on a small tmpfs, and a file takes all its free space: the server gets ENOSPC as on
any full disk. Nothing else is on that tmpfs, so nothing else is affected.
"""

from __future__ import annotations

import errno
import json
import os
import time
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse
from pathlib import Path

import psycopg

from loadtest.fault_needs import CLOCK, DISK
from loadtest.faults import postgres, redis
from loadtest.faults.fault import Fault, FaultFailed, command, kill, program, wait_until

AT_WORK = 4.0
"""Seconds to wait for a follow-up during which a worker can be killed."""

SETTLED = 1.5
"""Seconds that a process must live before supervisord counts it as started."""


class _Restarted(Fault):
    """A program is killed, repeatedly; its supervisor starts it again."""

    lasts = (0.0, 1.0)

    def words(self) -> tuple[str, ...]:
        """Return words of the program's command line."""
        raise NotImplementedError

    def kill_repeatedly(self) -> list[int]:
        """Kill it with its children up to three times, each time when it has settled."""
        killed = []
        for _ in range(self.random.randint(1, 3)):
            self.heal()
            main = program(self.target.shop, *self.words())
            killed += kill([main, *main.children(recursive=True)])
        return killed

    def heal(self) -> None:
        """Wait until it runs and is counted as started."""
        wait_until(f"{' '.join(self.words())} runs", self._settled, 30)

    def _settled(self) -> bool:
        try:
            age = time.time() - program(self.target.shop, *self.words()).create_time()
        except FaultFailed:
            return False
        return age > SETTLED


class CeleryKilled(_Restarted):
    """SIGKILL of the worker and its children at once.

    First of a single child during a follow-up, if there is one: another child must then do its
    unfinished work.
    """

    name = "celery-killed"
    what = "Celery's worker is killed with its children, repeatedly"
    expected = "the follow-up is complete, through the sweep"

    def words(self) -> tuple[str, ...]:  # noqa: D102
        return "celery", "worker"

    def inject(self) -> None:  # noqa: D102
        points = self.target.failpoints
        at_work = command(self.target, "follow-up", "kill", AT_WORK) if points else []
        self.did |= {"at_work": len(at_work), "killed": at_work + self.kill_repeatedly()}


class BrokerEmptied(Fault):
    """FLUSHDB: deletes all waiting messages and the broker's queues."""

    name = "broker-emptied"
    what = "Celery's broker is emptied"
    expected = "the follow-up is complete, through the sweep"
    lasts = (0.0, 1.0)

    def inject(self) -> None:  # noqa: D102
        with redis.connect(self.target.broker) as client:
            self.did["keys"] = client.dbsize()
            self.did["flushed"] = client.flushdb()

    def heal(self) -> None:
        """Do nothing: there is nothing to undo."""


class MailKilled(_Restarted):
    """SIGKILL of the mail server.

    A mail that it had taken but not acknowledged comes a second time, under the same Message-ID.
    """

    name = "mail-killed"
    what = "the mail server is killed, repeatedly"
    expected = "mails are sent later, orders go on"

    def words(self) -> tuple[str, ...]:  # noqa: D102
        return (self.target.mail_word,)

    def inject(self) -> None:  # noqa: D102
        self.did["killed"] = self.kill_repeatedly()


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
        self.did["sale"] = self._status()
        if self.did["sale"] in ("not_started", "ended"):
            raise FaultFailed(f"with the clock stepped by {step} s the sale is {self.did['sale']}")

    def heal(self) -> None:  # noqa: D102
        Path(self.target.clock).write_text("+0\n")
        wait_until("the worker's clock is back", lambda: abs(self._ahead()) < STEP / 2, 10)

    def _ahead(self) -> float:
        """Return the seconds by which a worker's clock is ahead; 0 if none answers now."""
        try:
            with self._ask(self.target.health_path) as answer:
                date = parsedate_to_datetime(answer.headers["Date"])
        except OSError:
            return 0.0
        return (date - datetime.fromtimestamp(time.time(), UTC)).total_seconds()

    def _status(self) -> str:
        """Return the status of the sale; empty if no worker answers now."""
        with suppress(OSError), self._ask(self.target.sale_path.format(self.target.sale)) as answer:
            return str(json.load(answer)["status"])
        return ""

    def _ask(self, path: str) -> HTTPResponse:
        answer: HTTPResponse = urllib.request.urlopen(self.target.web + path, timeout=5)
        return answer


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
            with postgres.connect(self.target.database) as connection:
                connection.execute("CREATE TEMP TABLE filler AS SELECT generate_series(1, 9999)")
        except psycopg.Error as error:
            return type(error).__name__
        return "succeeded"

    def heal(self) -> None:  # noqa: D102
        empty(self.target.disk)
        wait_until("PostgreSQL answers", lambda: postgres.answers(self.target.database))


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
