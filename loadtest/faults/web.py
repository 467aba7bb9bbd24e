"""Faults of web processes: killed at random or at a failpoint; a lock's holder paused."""

from __future__ import annotations

import signal
from random import Random
from typing import ClassVar

import psutil

from loadtest.fault_needs import FAILPOINTS
from loadtest.faults.fault import (
    Fault,
    FaultFailed,
    Target,
    children,
    command,
    is_stopped,
    kill,
    program,
    send,
    wait_until,
)

SOON = 8.0
"""Seconds within which a process reaches a failpoint during a sale."""

LEASE = 2.0
"""Lease of the shop's item lock in seconds; a longer pause lets the next holder in."""


class _Workers(Fault):
    """A fault that costs a web worker, which its master replaces."""

    lasts = (0.0, 1.0)

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self._master: psutil.Process | None = None
        self._before: list[psutil.Process] = []

    def find(self) -> list[psutil.Process]:
        """Return the current workers."""
        self._master = program(self.target.shop, self.target.web_word)
        self._before = children(self._master)
        if not self._before:
            raise FaultFailed("there is no web worker")
        return self._before

    def heal(self) -> None:
        """Wait until there are as many workers as before."""
        if self._master is not None:
            master, wanted = self._master, len(self._before)
            wait_until("a new web worker", lambda: len(children(master)) >= wanted)


class WebKilled(_Workers):
    """SIGKILL a web worker at a random moment."""

    name = "web-killed"
    what = "a web worker is killed"
    expected = "its requests are unknown; a retry with the same key gets the result"
    leaves_doubt = True

    def inject(self) -> None:  # noqa: D102
        self.did["killed"] = kill([self.random.choice(self.find())])


class _AtMark(_Workers):
    """Leave a command at a failpoint, and wait until a worker has executed it."""

    needs = frozenset({FAILPOINTS})
    point: ClassVar[str]
    order: ClassVar[str] = "kill"
    within: float = SOON
    """Seconds to wait until a worker reaches the failpoint."""

    def inject(self) -> None:
        self.find()
        obeyed = command(self.target, self.point, self.order, self.within)
        if not obeyed:
            raise FaultFailed(f"no worker reached {self.point} within {self.within:g} s")
        [self.pid] = obeyed
        self.did |= {"point": self.point, "pid": self.pid}


class _KilledAtMark(_AtMark):
    expected = "unknown to the buyers; a retry with the same key gets the result"
    leaves_doubt = True

    def inject(self) -> None:
        super().inject()
        wait_until(f"{self.pid} ends", lambda: not psutil.pid_exists(self.pid), 10)
        self.did["killed"] = [self.pid]


class KilledBeforeCommit(_KilledAtMark):
    """A worker dies after all writes and before the commit."""

    name = "web-killed-before-commit"
    what = "a web worker is killed before its commit"
    point = "before-commit"


class KilledAfterCommit(_KilledAtMark):
    """A worker dies after the commit, before any buyer is told."""

    name = "web-killed-after-commit"
    what = "a web worker is killed after its commit"
    point = "after-commit"


class KilledBeforeAnswer(_KilledAtMark):
    """A worker dies just before it sends the answer."""

    name = "web-killed-before-answer"
    what = "a web worker is killed before its answer"
    point = "before-answer"


class HolderPaused(_AtMark):
    """The holder of the item's lock is stopped for longer than its lease."""

    name = "holder-paused"
    what = "the lock's holder is paused beyond its lease"
    expected = "the next holder continues; the stale token changes nothing"
    point = "locked"
    order = "stop"
    lasts = (1.5 * LEASE, 2 * LEASE)
    # If nothing were left to sell when it continues, it would write nothing anyway.
    wants_stock = True
    pid = 0

    def inject(self) -> None:  # noqa: D102
        super().inject()
        wait_until(f"{self.pid} stops", lambda: is_stopped(self.pid), 5)
        self.did["stopped"] = [self.pid]

    def heal(self) -> None:
        """Let it continue."""
        if self.pid:
            self.did["continued"] = send(self.pid, signal.SIGCONT)
