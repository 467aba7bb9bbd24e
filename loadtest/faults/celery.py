"""Faults of Celery: its worker is killed repeatedly, its broker is emptied."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil

from loadtest.faults.fault import Fault, FaultFailed, wait_until
from loadtest.faults.processes import kill, program
from loadtest.faults.redis import connect

AT_WORK = 4.0
"""Seconds to wait for a follow-up during which a worker can be killed."""

SETTLED = 1.5
"""Seconds that a process must live before supervisord counts it as started."""


class CeleryKilled(Fault):
    """SIGKILL of the worker and its children at once; the supervisor restarts it.

    First of a single child during a follow-up, if there is one: another child must then do its
    unfinished work.
    """

    name = "celery-killed"
    what = "Celery's worker is killed with its children, repeatedly"
    expected = "the follow-up is complete, through the sweep"
    lasts = (0.0, 1.0)

    def inject(self) -> None:  # noqa: D102
        killed = self._kill_at_work()
        self.did["at_work"] = len(killed)
        for _ in range(self.random.randint(1, 3)):
            wait_until("Celery's worker runs", self._settled, 30)
            main = program(self.target.shop, "celery", "worker")
            killed += kill([main, *main.children(recursive=True)])
        self.did["killed"] = killed

    def heal(self) -> None:  # noqa: D102
        wait_until("Celery's worker runs", self._settled, 30)

    def _kill_at_work(self) -> list[int]:
        if not self.target.failpoints:
            return []
        order_file = Path(self.target.failpoints) / "follow-up"
        order_file.write_text("kill")
        with suppress(FaultFailed):  # there was no purchase
            wait_until("a worker follows up", lambda: not order_file.exists(), AT_WORK)
        order_file.unlink(missing_ok=True)
        found = list(order_file.parent.glob(f"{order_file.name}.*"))
        for each in found:
            each.unlink()
        return [int(each.suffix[1:]) for each in found]

    def _settled(self) -> bool:
        try:
            main = program(self.target.shop, "celery", "worker")
            return time.time() - main.create_time() > SETTLED
        except (FaultFailed, psutil.NoSuchProcess):
            return False


class BrokerEmptied(Fault):
    """FLUSHDB: deletes all waiting messages and the broker's queues."""

    name = "broker-emptied"
    what = "Celery's broker is emptied"
    expected = "the follow-up is complete, through the sweep"
    lasts = (0.0, 1.0)

    def inject(self) -> None:  # noqa: D102
        with connect(self.target.broker) as client:
            self.did["keys"] = client.dbsize()
            self.did["flushed"] = client.flushdb()

    def heal(self) -> None:
        """Do nothing: there is nothing to undo."""
