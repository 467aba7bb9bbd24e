"""The mail server killed in the midst of deliveries."""

from __future__ import annotations

import time

import psutil

from loadtest.faults.fault import Fault, FaultFailed, wait_until
from loadtest.faults.processes import kill, program

SETTLED = 1.5
"""Seconds that a supervisor wants to see a process live before it counts as started."""


class MailKilled(Fault):
    """SIGKILL, repeatedly; its supervisor starts it again.

    A mail that it had taken but not acknowledged comes a second time, under the same Message-ID.
    """

    name = "mail-killed"
    what = "the mail server is killed, repeatedly"
    expected = "mails are sent later, orders go on"
    lasts = (0.0, 1.0)

    def inject(self) -> None:  # noqa: D102
        killed = []
        for _ in range(self.random.randint(1, 3)):
            wait_until("the mail server runs", self._settled, 30)
            killed += kill([program(self.target.shop, self.target.mail_word)])
        self.did["killed"] = killed

    def heal(self) -> None:  # noqa: D102
        wait_until("the mail server runs", self._settled, 30)

    def _settled(self) -> bool:
        try:
            server = program(self.target.shop, self.target.mail_word)
            return time.time() - server.create_time() > SETTLED
        except (FaultFailed, psutil.NoSuchProcess):
            return False
