"""ZooKeeper lock: a queue of ephemeral nodes; each client watches only the node before its own.

Guarantees: mutual exclusion while sessions last; strict order of arrival; a release wakes only the
next waiter; a crashed holder's or waiter's node disappears with its session; a fencing token (the
node's `czxid`, which grows with every write in the ensemble); the lock survives a restart of
servers that is shorter than the session time-out.

Limits: a client that is paused past its session time-out does not notice until it runs again and
hears from the ensemble, so pass its token to the guarded resource.  The lock ends with the session,
which kazoo renews; it cannot be extended.

All locks of a process share one `KazooClient`, started by the caller.  Needs kazoo.  Source:
ZooKeeper Recipes, "Locks".  kazoo's own recipe leaves its node behind if a waiter is cancelled
while the connection is down (kazoo 760), and does not report a loss to the holder.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from math import inf
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import Callback, KazooState, KeeperState

from locking.backends._waiting import BackendLease, Deadline, WaitingLock
from locking.base import Lease
from locking.terms import Capabilities, LockUnavailable

ROOT = "/locks"
ANSWER_TIMEOUT = 2.0  # s; for an operation, including a reconnect
RETRY_PAUSE = 0.05  # s; between tries without a connection
CLEANUP_PAUSE = 1.0  # s; between tries to delete a node left behind

# kazoo reconnects after the first; after the second it starts a new session without our nodes.
DROPPED = (ConnectionLoss, SessionExpiredError)

RECONNECT = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}


class _BoundedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """A connection that gives up a server which takes it and does not answer.

    kazoo waits for the answer until the session has expired. A server that is starting may owe it.
    """

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(min(timeout, ANSWER_TIMEOUT), request, xid)


def zookeeper_client(hosts: str, session: float = 10.0) -> KazooClient:
    """Return an unstarted client with a session time-out of `session` seconds.

    It tries to reconnect twice per second; kazoo's default backs off to a minute, and the session
    would expire although the servers are up.
    """
    client = KazooClient(hosts, timeout=session, connection_retry=RECONNECT)
    client._connection.__class__ = _BoundedConnection  # kazoo offers no other way to choose it
    return client


class NodeLease(BackendLease):
    """A lease backed by the ephemeral node at the head of the queue; it watches for its end."""

    __slots__ = ()

    def __init__(self, lock: ZooKeeperLock, node: str, czxid: int) -> None:
        super().__init__(lock, node, token=czxid)
        lock.client.add_listener(self.session_changed)
        # Asynchronous: the answer only reports whether the node has been deleted.
        lock._send(lock.client.exists_async, node, watch=self._node_changed).rawlink(
            self._node_seen
        )

    def session_changed(self, state: str) -> bool | None:
        """Keep the lease's end in step with the session."""
        if state == KazooState.LOST:
            self.mark_lost("the session ended")
            return True  # tells kazoo to remove this listener
        if state == KazooState.SUSPENDED:
            # The ensemble counts from our last message, which may be two thirds of the session
            # time-out ago, because kazoo drops a silent connection only then.
            self._deadline = self.clock.monotonic() + self._lock.session_seconds() / 3
        else:
            self._deadline = inf
        return None

    def _node_changed(self, event: Any) -> None:
        if event.type == "DELETED" and not self._releasing:
            self.mark_lost("its node was deleted")

    def _node_seen(self, answer: Any) -> None:
        if answer.successful() and answer.value is None and not self._releasing:
            self.mark_lost("its node was deleted")


class ZooKeeperLock(WaitingLock):
    """A queue of nodes in the session of `client`; the first node holds the lock."""

    capabilities = Capabilities(
        fence=True,
        fair=True,
        renewal=True,
        extend=False,
        survives_server_restart=True,
        counts_waiters=True,
    )

    def __init__(self, client: KazooClient, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client = client
        self._address = str(sorted(client.hosts))
        self.path = f"{ROOT}/{quote(name, safe='')}"

    def _let_go(self, lease: NodeLease) -> bool:
        try:
            self._ask(self.client.delete_async, lease.grant)
        except NoNodeError:
            return False
        finally:
            self.client.remove_listener(lease.session_changed)
        self._delete_if_empty()
        return True

    def session_seconds(self) -> float:
        """Return the session time-out that was agreed with the ensemble."""
        return float(self.client._session_timeout) / 1000

    def _acquire(self, deadline: Deadline) -> Lease:
        while True:
            ticket = uuid.uuid4().hex  # finds our node if the answer to its creation is lost
            try:
                node, czxid = self._join(ticket)
                self._wait_for_turn(node, deadline)
                return NodeLease(self, f"{self.path}/{node}", czxid)
            except NoNodeError as error:
                # The session ended, and the place in the queue with it; kazoo has started another.
                if deadline.left() <= 0:
                    raise LockUnavailable("the session ended while waiting") from error
            except BaseException:
                self._leave(ticket)
                raise

    def _join(self, ticket: str) -> tuple[str, int]:
        """Append our node to the queue; return its name and its `czxid`."""
        end = self.clock.monotonic() + ANSWER_TIMEOUT
        while True:
            try:
                path, stat = self._ask_once(
                    self.client.create_async,
                    f"{self.path}/{ticket}-",
                    self.owner_name.encode(),
                    ephemeral=True,
                    sequence=True,
                    include_data=True,
                )
                return path.rpartition("/")[2], stat.czxid
            except NoNodeError:
                # Not with kazoo's `makepath`: its last request of several would come after ours
                # that looks for the node of a waiter who has given up.
                self._ask(self.client.ensure_path_async, self.path)
            except DROPPED as error:
                for node in self._queue():
                    if node.startswith(ticket):
                        stat = self._ask(self.client.exists_async, f"{self.path}/{node}")
                        return node, stat.czxid
                if self.clock.monotonic() > end:
                    raise LockUnavailable("ZooKeeper: the connection is lost") from error

    def _wait_for_turn(self, node: str, deadline: Deadline) -> None:
        woken = threading.Event()

        def wake(_: object) -> None:
            woken.set()

        # A connection change also wakes us, because a watch does not survive it.
        self.client.add_listener(wake)
        try:
            while True:
                woken.clear()
                queue = self._queue()
                if node not in queue:
                    raise NoNodeError
                place = queue.index(node)
                if place == 0:
                    return
                before = f"{self.path}/{queue[place - 1]}"
                if self._ask(self.client.exists_async, before, watch=wake) is None:
                    continue
                left = deadline.left()
                if not woken.wait(None if left == inf else left):
                    deadline.time_left()  # raises an error if there is none
        finally:
            self.client.remove_listener(wake)

    def _queue(self) -> list[str]:
        """Return the nodes in order of arrival."""
        try:
            nodes = self._ask(self.client.get_children_async, self.path)
        except NoNodeError:
            return []
        # A sequence number has ten digits and overflows at 2**31, far beyond any queue.
        return sorted(nodes, key=lambda node: node.rpartition("-")[2])

    def _leave(self, ticket: str) -> None:
        """Remove our node from the queue; in the background if the ensemble does not answer."""
        try:
            self._remove(ticket)
        except (LockUnavailable, KazooException):
            self.client.handler.spawn(self._leave_later, ticket)

    def _leave_later(self, ticket: str) -> None:
        # The node disappears with its session. If the session recovers, it may even be created
        # then: kazoo keeps the request until it is connected again, and ours after it.
        while self.client.client_state != KeeperState.CLOSED:
            try:
                self._remove(ticket)
            except (LockUnavailable, KazooException):
                self.client.handler.sleep_func(CLEANUP_PAUSE)
            else:
                return

    def _remove(self, ticket: str) -> None:
        for node in self._queue():
            if node.startswith(ticket):
                self._ask(self.client.delete_async, f"{self.path}/{node}")
        self._delete_if_empty()

    def _delete_if_empty(self) -> None:
        """Delete the queue's parent node; the server refuses unless it is empty."""
        self._send(self.client.delete_async, self.path)

    def _ask(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a repeatable operation, also across a reconnect."""
        end = self.clock.monotonic() + ANSWER_TIMEOUT
        while True:
            try:
                return self._ask_once(operation, *arguments, **options)
            except DROPPED as error:
                if self.clock.monotonic() > end:
                    raise LockUnavailable(f"ZooKeeper: {error!r}") from error
                self.client.handler.sleep_func(RETRY_PAUSE)

    def _ask_once(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run one operation; raise one of `DROPPED` if its outcome is unknown."""
        try:
            return self._send(operation, *arguments, **options).get(timeout=ANSWER_TIMEOUT)
        except (NoNodeError, *DROPPED):
            raise
        except (KazooTimeoutError, KazooException) as error:
            raise LockUnavailable(f"ZooKeeper: {error!r}") from error

    def _send(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Start one operation; return its `AsyncResult`."""
        if threading.current_thread() is not threading.main_thread():
            return operation(*arguments, **options)
        # kazoo takes a KeyboardInterrupt that reaches it while it sends for a closed connection,
        # so that the waiter goes on. Another thread gets no interrupts.
        sent: SimpleQueue[Any] = SimpleQueue()
        self.client.handler.dispatch_callback(
            Callback("session", lambda: sent.put(operation(*arguments, **options)), ())
        )
        try:
            return sent.get(timeout=ANSWER_TIMEOUT)
        except Empty as error:
            raise LockUnavailable("ZooKeeper: kazoo's thread for callbacks is busy") from error

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        for node in self._queue()[:1]:
            try:
                data, _ = self._ask(self.client.get_async, f"{self.path}/{node}")
            except NoNodeError:
                return self.owner()  # the node was deleted in between
            return str(data.decode())
        return None

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        return max(0, len(self._queue()) - 1)

    def _evict(self) -> bool:
        for node in self._queue()[:1]:
            try:
                self._ask(self.client.delete_async, f"{self.path}/{node}")
            except NoNodeError:
                return False
            return True
        return False
