"""Locks that hold connections to a database, from a pool: a connection outlives one lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from locking.backends._waiting import BackendLease, WaitingLock, watch
from locking.terms import Capabilities, LockTimeout, LockUnavailable

LASTS_AS_ITS_CONNECTION = Capabilities(
    fence=True, renewal=True, extend=False, crash_release="connection"
)


class Sessions:
    """Idle connections, shared by the locks of one server in one process.

    Each lease and each waiter occupies one connection.  Threads may share the pool; after a fork
    the child starts with an empty pool.
    """

    def __init__(
        self, connect: Callable[[], Any], fileno: Callable[[Any], int], address: str
    ) -> None:
        """Store `connect`, which opens one autocommit connection; open nothing yet.

        `fileno` returns the file number of a connection's socket; `address` is the database's.
        """
        self.address = address
        self._connect = connect
        self._fileno = fileno
        self._idle: list[Any] = []
        self._abandoned: list[Any] = []
        self._process = os.getpid()

    def take(self) -> Any:
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
            if not watch(self._fileno(connection))(0):
                return connection
            self.discard(connection)

    def give_back(self, connection: Any) -> None:
        """Return a connection that holds no lock to the pool."""
        self._idle.append(connection)

    def discard(self, connection: Any) -> None:
        """Close a connection in an unknown state, which frees any lock it may hold."""
        with contextlib.suppress(Exception):  # a broken connection may fail to close
            connection.close()

    def close(self) -> None:
        """Close the idle connections; held leases keep theirs."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was faster
                self.discard(self._idle.pop())


class SessionLock(WaitingLock):
    """A lock on the database of `sessions`; `options` are those of `WaitingLock`."""

    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    """The errors of a statement that has waited in vain for a lock."""

    def __init__(self, sessions: Sessions, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.sessions = sessions
        self._address = sessions.address

    @contextlib.contextmanager
    def _lent(self, *, keep: bool = False) -> Iterator[Any]:
        """Lend a connection, and take it back unless the caller will `keep` it.

        After an error, close it, and with it any lock it may hold.
        """
        with self.asking():
            connection = self.sessions.take()
        try:
            with self.asking():
                try:
                    yield connection
                except self.refusals as error:
                    connection.rollback()
                    raise LockTimeout(str(error).strip()) from error
        except LockTimeout:
            self.sessions.give_back(connection)
            raise
        except LockUnavailable:
            self.sessions.discard(connection)
            self.sessions.close()  # a restart of the server, for example, breaks all of them
            raise
        except BaseException:  # KeyboardInterrupt while waiting: the lock may have been granted
            self.sessions.discard(connection)
            raise
        if not keep:
            self.sessions.give_back(connection)

    def _ping(self, connection: Any) -> None:
        raise NotImplementedError

    def _unlock(self, connection: Any) -> bool:
        """Free the lock that the connection holds; return whether it held it."""
        raise NotImplementedError

    def _let_go(self, lease: SessionLease) -> bool:
        try:
            let_go = self._unlock(lease.connection)
        except self.failures as error:
            self.sessions.discard(lease.connection)
            lease.broken(error)
            return False
        self.sessions.give_back(lease.connection)
        return let_go


class SessionLease(BackendLease):
    """A lock that lasts as long as `connection`."""

    __slots__ = ()

    @property
    def connection(self) -> Any:
        """The connection that holds the lock."""
        return self.grant

    def check(self) -> None:
        """Ask the server whether the connection, and so the lock, still exists.

        The lease has no expiry, so the client cannot detect a loss without asking.
        """
        super().check()
        try:
            self._lock._ping(self.connection)
        except self._lock.failures as error:
            self.broken(error)
            super().check()

    def broken(self, error: Exception) -> None:
        """Record that the connection has failed."""
        self.mark_lost(f"its connection failed: {error}".strip())
