"""Lease renewal: a daemon thread for each server renews the leases on it and detects losses."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Hashable
from math import inf
from typing import Protocol

from locking.terms import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

MAX_SLEEP = 1.0
"""The longest sleep of the thread in seconds.  The thread wakes by itself before the first renewal
of a lease longer than three times this, so registering such a lease costs no thread switch."""

MAX_IDLE = 10.0
"""Seconds without a lease after which a server's thread ends; the next lease starts another."""


class Renewable(Protocol):
    """The interface of a lease that the renewal thread needs."""

    @property
    def server(self) -> object:
        """The lease's server; it has a thread of its own, and is asked once per round if silent."""

    def renew(self) -> tuple[bool, float]:
        """Renew the lease; return whether its server answers, and when to do so again.

        That is a monotonic time, `inf` for a lease that is lost.
        """


class _Entry:
    __slots__ = ("due", "lease")

    def __init__(self, lease: Renewable, due: float) -> None:
        # A weak reference, so that a lease that its owner dropped is not renewed indefinitely.
        self.lease = weakref.ref(lease)
        self.due = due


class _Server:
    """The leases on one server, by key, and the thread that renews them.

    The thread and its event are created at first use: after a fork, and after gevent has patched
    `threading`, even if this module was imported before.
    """

    __slots__ = ("entries", "guard", "is_served", "wake_up", "wakes_at")

    def __init__(self) -> None:
        self.entries: dict[Hashable, _Entry] = {}
        self.guard = threading.Lock()
        self.is_served = False
        self.wake_up = threading.Event()
        self.wakes_at = inf


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

    def register(self, key: Hashable, lease: Renewable, due: float) -> None:
        """Renew `lease` from `due` (monotonic) on; `key` identifies it for `cancel`."""
        # The identifier of a server that has gone may be reused: two servers then share a thread.
        ident = id(lease.server)
        server = self._servers.get(ident) or self._servers.setdefault(ident, _Server())
        server.entries[key] = _Entry(lease, due)
        if due < server.wakes_at:
            self._rouse(server)

    def cancel(self, key: Hashable) -> None:
        """Stop renewing a lease; harmless if it is not registered."""
        for server in list(self._servers.values()):
            server.entries.pop(key, None)

    def _rouse(self, server: _Server) -> None:
        with server.guard:
            if not server.is_served:
                server.is_served = True
                threading.Thread(
                    target=self._serve, args=(server,), name="lock-renewal", daemon=True
                ).start()
        server.wake_up.set()

    def _serve(self, server: _Server) -> None:
        idle_since = self.clock.monotonic()
        try:
            while server.is_served:
                # The order matters: a lease registered after `renew_due` has read the entries finds
                # an infinite `wakes_at` and sets the event, which is not cleared before the wait.
                server.wake_up.clear()
                server.wakes_at = inf
                wakes_at = self.renew_due(server)
                now = self.clock.monotonic()
                if server.entries:
                    idle_since = now
                elif now - idle_since > MAX_IDLE:
                    self._retire(server)
                    continue
                server.wakes_at = wakes_at
                server.wake_up.wait(max(0.0, wakes_at - now))
        except BaseException:
            server.is_served = False
            server.wakes_at = inf
            raise

    def _retire(self, server: _Server) -> None:
        # A lease that is registered meanwhile waits for the guard, and then starts a thread.
        with server.guard:
            server.is_served = bool(server.entries)
        if not server.is_served:
            for ident, known in list(self._servers.items()):
                if known is server:
                    self._servers.pop(ident, None)

    def renew_due(self, server: _Server) -> float:
        """Renew all due leases on a server; return when to run again (monotonic)."""
        now = self.clock.monotonic()
        wakes_at = now + MAX_SLEEP
        responsive = True
        for key, entry in list(server.entries.items()):
            lease = entry.lease()
            if lease is None:
                server.entries.pop(key, None)
                continue
            if entry.due <= now and responsive:
                responsive, entry.due = self._renew(lease)
                if entry.due == inf:
                    server.entries.pop(key, None)
            wakes_at = min(wakes_at, entry.due)
        return wakes_at

    def _renew(self, lease: Renewable) -> tuple[bool, float]:
        try:
            return lease.renew()
        except Exception:
            # An unforeseen error of one lease must not stop the renewal of all on the server.
            logger.exception("a lease was not renewed; trying again in %s s", MAX_SLEEP)
            return False, self.clock.monotonic() + MAX_SLEEP


RENEWER = Renewer()
"""The renewer of this process; the simulator creates its own."""
