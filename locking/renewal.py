"""Lease renewal: a daemon thread for each server renews the leases on it and detects losses."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Hashable
from enum import Enum
from math import inf
from typing import Protocol

from locking.terms import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

MAX_SLEEP = 1.0
"""The longest sleep of the thread in seconds.  The thread wakes by itself before the first renewal
of a lease longer than three times this, so registering such a lease costs no thread switch."""

MAX_IDLE = 10.0
"""Seconds without a lease after which a server's thread ends; the next lease starts another."""


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
        """The lease's server; it has a thread of its own, and is asked once per round if silent."""

    def renew(self) -> tuple[Renewal, float]:
        """Renew the lease; return the outcome and the next due time (monotonic; `inf`: never)."""


class _Entry:
    __slots__ = ("due", "lease")

    def __init__(self, lease: Renewable, due: float) -> None:
        # A weak reference, so that a lease that its owner dropped is not renewed indefinitely.
        self.lease = weakref.ref(lease)
        self.due = due


class _Server:
    """The leases on one server, and the thread that renews them.

    The thread and its event are created at first use: after a fork, and after gevent has patched
    `threading`, even if this module was imported before.
    """

    __slots__ = ("entries", "wakes_at", "workers")

    def __init__(self) -> None:
        self.entries: dict[Hashable, _Entry] = {}
        self.wakes_at = inf
        self.workers: dict[str, _Worker] = {}


class _Worker:
    def __init__(self, renewer: Renewer, server: _Server) -> None:
        self.wake_up = threading.Event()
        self.stopped = False
        self.thread = threading.Thread(
            target=renewer._work, args=(self, server), name="lock-renewal", daemon=True
        )


class Renewer:
    """Renews registered leases when due, until they are cancelled or garbage-collected.

    A lock registers a lease before it sends the acquire and cancels it before it sends the release.
    So renewal covers the whole lease and never extends a lock that its holder has given up.  Each
    server has a thread of its own, because one that does not answer must not delay the others.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # A forked child inherits neither its parent's leases nor its threads.
        self._servers: dict[int, _Server] = {}
        self._server_of: dict[Hashable, _Server] = {}

    def register(self, key: Hashable, lease: Renewable, due: float) -> None:
        """Renew `lease` from `due` (monotonic) on; `key` identifies it for `cancel`."""
        # The identifier of a server that has gone may be reused: two servers then share a thread.
        ident = id(lease.server)
        server = self._servers.get(ident) or self._servers.setdefault(ident, _Server())
        server.entries[key] = _Entry(lease, due)
        self._server_of[key] = server
        worker = server.workers.get("one")
        if worker is None or worker.stopped:
            worker = self._start_worker(server, worker)
        if due < server.wakes_at:
            worker.wake_up.set()

    def cancel(self, key: Hashable) -> None:
        """Stop renewing a lease; harmless if it is not registered."""
        server = self._server_of.pop(key, None)
        if server is not None:
            server.entries.pop(key, None)

    def _start_worker(self, server: _Server, predecessor: _Worker | None) -> _Worker:
        if predecessor is not None:
            server.workers.pop("one", None)
        # setdefault is atomic: of two concurrent threads, one starts the worker.
        mine = _Worker(self, server)
        worker = server.workers.setdefault("one", mine)
        if worker is mine:
            worker.thread.start()
        return worker

    def _work(self, worker: _Worker, server: _Server) -> None:
        idle_since = self.clock.monotonic()
        try:
            while server.workers.get("one") is worker:
                # The order matters: a lease registered after `renew_due` has read the entries finds
                # an infinite `wakes_at` and sets the event, which is not cleared before the wait.
                worker.wake_up.clear()
                server.wakes_at = inf
                server.wakes_at = wakes_at = self.renew_due(server)
                now = self.clock.monotonic()
                if server.entries:
                    idle_since = now
                elif now - idle_since > MAX_IDLE and self._retire(worker, server):
                    return
                worker.wake_up.wait(max(0.0, wakes_at - now))
        finally:
            worker.stopped = True

    def _retire(self, worker: _Worker, server: _Server) -> bool:
        # A lease that is registered from now on finds the worker stopped and starts another.
        worker.stopped = True
        if server.entries:
            worker.stopped = False
            return False
        for ident, known in list(self._servers.items()):
            if known is server:
                self._servers.pop(ident, None)
        return True

    def renew_due(self, server: _Server) -> float:
        """Renew all due leases on a server; return when to run again (monotonic)."""
        now = self.clock.monotonic()
        wakes_at = now + MAX_SLEEP
        responsive = True
        for key, entry in list(server.entries.items()):
            lease = entry.lease()
            if lease is None:
                self.cancel(key)
                continue
            if entry.due <= now and responsive:
                outcome, due = self._renew(lease)
                entry.due = due
                responsive = outcome is not Renewal.UNKNOWN
                if outcome is Renewal.LOST:
                    self.cancel(key)
            wakes_at = min(wakes_at, entry.due)
        return wakes_at

    def _renew(self, lease: Renewable) -> tuple[Renewal, float]:
        try:
            return lease.renew()
        except Exception:
            # A metrics hook that raises must not stop the renewal of every lock on the server.
            logger.exception("a lease was not renewed; trying again in %s s", MAX_SLEEP)
            return Renewal.UNKNOWN, self.clock.monotonic() + MAX_SLEEP


RENEWER = Renewer()
"""The renewer of this process; the simulator creates its own."""
