"""Keeps leases alive, and says when one is lost: one daemon thread a process, for all locks."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Hashable
from enum import Enum
from typing import Protocol

from locking.base import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

MAX_SLEEP = 1.0
"""Seconds that the thread sleeps at most.  A lease of more than three times that is first due
after the thread is awake anyway, so that registering it need not wake the thread, which would cost
every short acquisition a switch of threads."""


class Renewal(Enum):
    """What is known about a lease after an attempt to renew it."""

    RENEWED = "renewed"
    """It was ours, and now ends later."""
    HELD = "held"
    """It is ours, but its end was not moved: it lies later already, or must not be moved."""
    UNKNOWN = "unknown"
    """No answer; it may be ours until its old end."""
    LOST = "lost"
    """It is not ours."""


class Renewable(Protocol):
    """A lease, as the renewal sees it."""

    @property
    def server(self) -> object:
        """What answers for it: if that is silent for one lease, others need not ask it too."""

    def renew(self) -> tuple[Renewal, float]:
        """Renew it; the outcome, and when to come again (monotonic; `inf` for never)."""


class _Entry:
    __slots__ = ("due", "lease")

    def __init__(self, lease: Renewable, due: float) -> None:
        # Weak: a lease that its owner dropped is not kept alive for ever.
        self.lease = weakref.ref(lease)
        self.due = due


class _Worker:
    """The thread and its bell, made together at first use: after a fork, and after gevent has
    patched `threading`, even if this module was imported before."""

    def __init__(self, renewer: Renewer) -> None:
        self.bell = threading.Event()
        self.gone = False
        self.thread = threading.Thread(
            target=renewer._work, args=(self,), name="lock-renewal", daemon=True
        )


class Renewer:
    """Renews what is registered with it, when due, until it is cancelled or garbage.

    A lease is registered before its acquire is sent and cancelled before its release is, so that
    no moment is uncovered, and nothing lengthens a lock that its holder has given up.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # A forked child has neither its parent's leases nor its thread.
        self._entries: dict[Hashable, _Entry] = {}
        self._workers: dict[str, _Worker] = {}
        self._wakes_at = float("inf")

    def register(self, key: Hashable, lease: Renewable, due: float) -> None:
        """Renew `lease` from `due` (monotonic) on, under a key of its own."""
        self._entries[key] = _Entry(lease, due)
        worker = self._workers.get("one")
        if worker is None or worker.gone:
            worker = self._start_worker(worker)
        if due < self._wakes_at:
            worker.bell.set()

    def cancel(self, key: Hashable) -> None:
        """Renew it no more; harmless if it is not registered."""
        self._entries.pop(key, None)

    def _start_worker(self, predecessor: _Worker | None) -> _Worker:
        if predecessor is not None:
            self._workers.pop("one", None)
        # setdefault is atomic: of two threads that come at once, one starts the worker.
        mine = _Worker(self)
        worker = self._workers.setdefault("one", mine)
        if worker is mine:
            worker.thread.start()
        return worker

    def _work(self, worker: _Worker) -> None:
        try:
            while self._workers.get("one") is worker:
                # The order matters: a lease that is registered after the look at the entries
                # finds a `_wakes_at` that makes it ring, and the ring is not cleared.
                worker.bell.clear()
                self._wakes_at = float("inf")
                self._wakes_at = wakes_at = self.renew_due()
                worker.bell.wait(max(0.0, wakes_at - self.clock.monotonic()))
        finally:
            worker.gone = True

    def renew_due(self) -> float:
        """Renew all that is due by now; when to come again (monotonic)."""
        now = self.clock.monotonic()
        wakes_at = now + MAX_SLEEP
        silent: set[int] = set()
        for key, entry in list(self._entries.items()):
            lease = entry.lease()
            if lease is None:
                self.cancel(key)
                continue
            if entry.due <= now and id(lease.server) not in silent:
                outcome, entry.due = self._renew(lease)
                if outcome is Renewal.UNKNOWN:
                    silent.add(id(lease.server))
                if outcome is Renewal.LOST:
                    self.cancel(key)
            wakes_at = min(wakes_at, entry.due)
        return wakes_at

    def _renew(self, lease: Renewable) -> tuple[Renewal, float]:
        try:
            return lease.renew()
        except Exception:
            # A metrics hook that raises must not end the renewal of every lock in the process.
            logger.exception("renewing a lease failed")
            return Renewal.UNKNOWN, self.clock.monotonic() + MAX_SLEEP


RENEWER = Renewer()
"""The process's own; a simulator makes another and calls `renew_due` itself."""
