"""Database connections that outlive one lock: a lock is a name, a connection is expensive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from locking.backends._sockets import readable


class Closable(Protocol):
    """What every DB-API connection can do."""

    def close(self) -> None:
        """End the connection; the server then frees what it held."""


Connection = TypeVar("Connection", bound=Closable)


class Sessions(Generic[Connection]):
    """Idle connections, shared by the locks of one server in one process.

    A lock that is held or waited for occupies one connection, so there are as many as there are
    leases and waiters at a time.  Threads may share it; after a fork the child starts afresh.
    """

    def __init__(
        self, connect: Callable[[], Connection], fileno: Callable[[Connection], int]
    ) -> None:
        """Remember `connect`, which opens one autocommit connection; nothing is opened yet.

        `fileno` tells a connection's socket.
        """
        self._connect = connect
        self._fileno = fileno
        self._idle: list[Connection] = []
        self._abandoned: list[Connection] = []
        self._process = os.getpid()

    def take(self) -> Connection:
        """Return an idle connection, or a new one; raises what `connect` raises."""
        if self._process != os.getpid():
            # They are the parent's: closing them here would end its sessions, and its locks.
            self._abandoned, self._idle, self._process = self._idle, [], os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            # Seen here, a restart of the server costs the next user a connection, not an error.
            if not readable(self._fileno(connection)):
                return connection
            self.discard(connection)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection, on which nothing is held any more, for the next lock."""
        self._idle.append(connection)

    def discard(self, connection: Connection) -> None:
        """Close a connection in an unknown state, which frees whatever it may have held."""
        with contextlib.suppress(Exception):  # a broken connection may refuse even that
            connection.close()

    def close(self) -> None:
        """Close what is idle; held leases keep their connection."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was faster
                self.discard(self._idle.pop())
