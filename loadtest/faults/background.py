"""Faults of Celery and of the mail server: killed repeatedly; the broker is emptied."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from loadtest.faults.fault import Fault, FaultFailed, kill, program, wait_until
from loadtest.faults.redis import connect

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
        at_work = self._kill_at_work()
        self.did |= {"at_work": len(at_work), "killed": at_work + self.kill_repeatedly()}

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
