"""A pool of database connections for locks: connections are expensive and outlive one lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from locking.backends._sockets import readable


class Closable(Protocol):
    """The part of a DB-API connection that the pool uses."""

    def close(self) -> None:
        """Close the connection; the server then frees the locks it held."""


Connection = TypeVar("Connection", bound=Closable)


class Sessions(Generic[Connection]):
    """Idle connections, shared by the locks of one server in one process.

    Each lease and each waiter occupies one connection.  Threads may share the pool; after a fork
    the child starts with an empty pool.
    """

    def __init__(
        self, connect: Callable[[], Connection], fileno: Callable[[Connection], int], address: str
    ) -> None:
        """Store `connect`, which opens one autocommit connection; open nothing yet.

        `fileno` returns the file number of a connection's socket; `address` is the database's.
        """
        self.address = address
        self._connect = connect
        self._fileno = fileno
        self._idle: list[Connection] = []
        self._abandoned: list[Connection] = []
        self._process = os.getpid()

    def take(self) -> Connection:
        """Return an idle or a new connection; raise what `connect` raises."""
        if self._process != os.getpid():
            # They belong to the parent: closing them here would end its sessions and its locks.
            self._abandoned, self._idle, self._process = self._idle, [], os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            # Checked here, a restart of the server costs a reconnect instead of an error.
            if not readable(self._fileno(connection)):
                return connection
            self.discard(connection)

    def give_back(self, connection: Connection) -> None:
        """Return a connection that holds no lock to the pool."""
        self._idle.append(connection)

    def discard(self, connection: Connection) -> None:
        """Close a connection in an unknown state, which frees any lock it may hold."""
        with contextlib.suppress(Exception):  # a broken connection may fail to close
            connection.close()

    def close(self) -> None:
        """Close the idle connections; held leases keep theirs."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was faster
                self.discard(self._idle.pop())
