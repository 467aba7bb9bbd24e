"""Lease renewal: one daemon thread per process renews all leases and detects losses."""

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
"""The longest sleep of the thread in seconds.  The thread wakes by itself before the first renewal
of a lease longer than three times this, so registering such a lease costs no thread switch."""


class Renewal(Enum):
    """The outcome of an attempt to renew a lease."""

    RENEWED = "renewed"
    """The lease was ours and now expires later."""
    HELD = "held"
    """The lease is ours; its expiry was not moved because it is later already or must stay."""
    UNKNOWN = "unknown"
    """No answer; the lease may be ours until its old expiry."""
    LOST = "lost"
    """The lease is not ours."""


class Renewable(Protocol):
    """The interface of a lease that the renewal thread needs."""

    @property
    def server(self) -> object:
        """The lease's server; if it does not answer for one lease, the others are not sent."""

    def renew(self) -> tuple[Renewal, float]:
        """Renew the lease; return the outcome and the next due time (monotonic; `inf`: never)."""


class _Entry:
    __slots__ = ("due", "lease")

    def __init__(self, lease: Renewable, due: float) -> None:
        # A weak reference, so that a lease that its owner dropped is not renewed indefinitely.
        self.lease = weakref.ref(lease)
        self.due = due


class _Worker:
    """The renewal thread and its wake-up event.

    They are created at first use: after a fork, and after gevent has patched `threading`, even if
    this module was imported before.
    """

    def __init__(self, renewer: Renewer) -> None:
        self.wake_up = threading.Event()
        self.stopped = False
        self.thread = threading.Thread(
            target=renewer._work, args=(self,), name="lock-renewal", daemon=True
        )


class Renewer:
    """Renews registered leases when due, until they are cancelled or garbage-collected.

    A lock registers a lease before it sends the acquire and cancels it before it sends the release.
    So renewal covers the whole lease and never extends a lock that its holder has given up.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # A forked child inherits neither its parent's leases nor its thread.
        self._entries: dict[Hashable, _Entry] = {}
        self._workers: dict[str, _Worker] = {}
        self._wakes_at = float("inf")

    def register(self, key: Hashable, lease: Renewable, due: float) -> None:
        """Renew `lease` from `due` (monotonic) on; `key` identifies it for `cancel`."""
        self._entries[key] = _Entry(lease, due)
        worker = self._workers.get("one")
        if worker is None or worker.stopped:
            worker = self._start_worker(worker)
        if due < self._wakes_at:
            worker.wake_up.set()

    def cancel(self, key: Hashable) -> None:
        """Stop renewing a lease; harmless if it is not registered."""
        self._entries.pop(key, None)

    def _start_worker(self, predecessor: _Worker | None) -> _Worker:
        if predecessor is not None:
            self._workers.pop("one", None)
        # setdefault is atomic: of two concurrent threads, one starts the worker.
        mine = _Worker(self)
        worker = self._workers.setdefault("one", mine)
        if worker is mine:
            worker.thread.start()
        return worker

    def _work(self, worker: _Worker) -> None:
        try:
            while self._workers.get("one") is worker:
                # The order matters: a lease registered after `renew_due` has read the entries finds
                # an infinite `_wakes_at` and sets the event, which is not cleared before the wait.
                worker.wake_up.clear()
                self._wakes_at = float("inf")
                self._wakes_at = wakes_at = self.renew_due()
                worker.wake_up.wait(max(0.0, wakes_at - self.clock.monotonic()))
        finally:
            worker.stopped = True

    def renew_due(self) -> float:
        """Renew all due leases; return when to run again (monotonic)."""
        now = self.clock.monotonic()
        wakes_at = now + MAX_SLEEP
        unresponsive: set[int] = set()
        for key, entry in list(self._entries.items()):
            lease = entry.lease()
            if lease is None:
                self.cancel(key)
                continue
            if entry.due <= now and id(lease.server) not in unresponsive:
                outcome, entry.due = self._renew(lease)
                if outcome is Renewal.UNKNOWN:
                    unresponsive.add(id(lease.server))
                if outcome is Renewal.LOST:
                    self.cancel(key)
            wakes_at = min(wakes_at, entry.due)
        return wakes_at

    def _renew(self, lease: Renewable) -> tuple[Renewal, float]:
        try:
            return lease.renew()
        except Exception:
            # A metrics hook that raises must not stop the renewal of every lock in the process.
            logger.exception("a lease was not renewed; trying again in %s s", MAX_SLEEP)
            return Renewal.UNKNOWN, self.clock.monotonic() + MAX_SLEEP


RENEWER = Renewer()
"""The renewer of this process; the simulator creates its own."""
