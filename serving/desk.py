"""A desk for CPU work that would stop the loop of a gevent worker, such as hashing a password.

The work runs in one thread of the operating system, at a low priority, while the loop goes on. It
must release Python's lock, as OpenSSL's hashes do. Who comes while the desk is taken waits in a
line per client, and the lines are served in turn: a client that sends a thousand requests waits
for them itself. When too many wait, the last one of the longest line is sent away.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, TypeVar

from gevent.event import AsyncResult
from gevent.monkey import get_original
from gevent.threadpool import ThreadPool

MAX_WAITING = 512
"""Requests that may wait: a classroom that signs in at once, and as many again."""

NICENESS = 19
"""The lowest priority: the thread gets what purchases, the database and the locks leave."""

R = TypeVar("R")


class Full(Exception):
    """Too many wait, and this request is not among those that may. Nothing was done."""


class Desk:
    """Does work for this thread's greenlets, one piece at a time, in a thread of its own.

    Args:
        max_waiting: pieces of work that may wait.
    """

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._threads = ThreadPool(1)
        self._max_waiting = max_waiting
        self._taken = False
        self._lines: OrderedDict[str, deque[AsyncResult[bool]]] = OrderedDict()

    def run(self, client: str, work: Callable[[], R]) -> R:
        """Return what `work` returns, or raise what it raises.

        Args:
            client: whose work it is, such as the client's address.
            work: is called in the other thread.

        Raises:
            Full: too many wait.
        """
        if self._taken:
            self._wait(client)
        self._taken = True
        try:
            result: Any = self._threads.apply(_in_background, (work,))
        finally:
            self._call_next()
        return result  # type: ignore[no-any-return]

    def waiting(self) -> int:
        """Return how many pieces of work wait."""
        return sum(map(len, self._lines.values()))

    def _wait(self, client: str) -> None:
        if self.waiting() >= self._max_waiting:
            self._make_room(client)
        ticket: AsyncResult[bool] = AsyncResult()
        self._lines.setdefault(client, deque()).append(ticket)
        try:
            called = ticket.get()
        except BaseException:  # the greenlet is killed while it waits
            if not ticket.ready():
                self._remove(client, ticket)
            elif ticket.value:
                self._call_next()
            raise
        if not called:
            raise Full

    def _make_room(self, client: str) -> None:
        longest = max(self._lines, key=lambda each: len(self._lines[each]), default=client)
        if len(self._lines.get(longest, ())) <= len(self._lines.get(client, ())) + 1:
            raise Full
        last = self._lines[longest][-1]
        self._remove(longest, last)
        last.set(False)

    def _remove(self, client: str, ticket: AsyncResult[bool]) -> None:
        self._lines[client].remove(ticket)
        if not self._lines[client]:
            del self._lines[client]

    def _call_next(self) -> None:
        if not self._lines:
            self._taken = False
            return
        client, line = self._lines.popitem(last=False)
        ticket = line.popleft()
        if line:
            self._lines[client] = line  # behind the others
        ticket.set(True)


def _in_background(work: Callable[[], R]) -> R:
    if sys.platform == "linux":
        # There, the number of a thread is taken for a process of its own.
        thread = get_original("threading", "get_native_id")()
        if os.getpriority(os.PRIO_PROCESS, thread) < NICENESS:
            os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
    return work()
