"""ZooKeeper lock: ephemeral nodes in a line, each client watching only the one before it.

Guaranteed: mutual exclusion while sessions last; strict order of arrival; only the next in line is
woken; a crashed holder's or waiter's node goes when its session ends; a fencing token (the `czxid`
of the node, which grows with every write in the ensemble); the lock survives a restart of servers
that is shorter than the session's time-out.

Not guaranteed: a client that is paused past its session's time-out does not know that it is out
until it runs again and hears from the ensemble, so hand the token to what the lock guards.  The
session, not a lease of this lock, is what ends: it is renewed by kazoo, and cannot be extended.

One `KazooClient` a process, started by the caller, is shared by all its locks.  Needs kazoo.
Source: ZooKeeper Recipes, "Locks".  kazoo's own recipe leaves its node behind when a waiter is
cancelled while the connection is down (kazoo 760), and tells its holder of no loss.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from math import inf
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
from kazoo.protocol.states import KazooState

from locking.backends._waiting import Deadline, WaitingLock
from locking.base import Capabilities, Lease, LockTimeout, LockUnavailable, LockUnsupported

logger = logging.getLogger(__name__)

ROOT = "/locks"
ANSWER_TIMEOUT = 2.0  # s for an operation, over a reconnect if need be
RETRY_PAUSE = 0.05  # s between tries while there is no connection
CLEANUP_PAUSE = 1.0  # s between tries to delete a node that was left behind


# After the first of these kazoo connects again, after the second it begins a new session, in which
# our nodes are not.
DROPPED = (ConnectionLoss, SessionExpiredError)


RECONNECT = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}


def zookeeper_client(hosts: str, session: float = 10.0) -> KazooClient:
    """Return a client, to be started, whose session ends `session` seconds after it falls silent.

    It looks for a server twice a second; by kazoo's default it would back off to a minute, and the
    session end meanwhile though the servers are up.
    """
    return KazooClient(hosts, timeout=session, connection_retry=RECONNECT)


class NodeLease(Lease):
    """An ephemeral node at the head of the line, as long as the session lasts."""

    __slots__ = ("_lock", "_node", "_releasing")

    def __init__(self, lock: ZooKeeperLock, node: str, czxid: int) -> None:
        """Describe the `node` that came to the head of the line; listen for its end."""
        super().__init__(lock.name, token=czxid, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._node = node
        self._releasing = False
        lock.client.add_listener(self._session_changed)
        # Not waited for: the answer only tells whether somebody takes the node away from us.
        lock.client.exists_async(node, watch=self._node_changed).rawlink(self._node_seen)

    def _session_changed(self, state: str) -> bool | None:
        if state == KazooState.LOST:
            self.mark_lost("the session ended")
            return True  # kazoo then forgets this listener
        if state == KazooState.SUSPENDED:
            # The ensemble counts from the last it heard of us, which may be two thirds of the
            # session's time ago: kazoo gives a silent connection up after that.
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

    def _release(self) -> bool:
        self._releasing = True
        try:
            self._lock._ask(self._lock.client.delete_async, self._node)
        except NoNodeError:
            return False
        finally:
            self._lock.client.remove_listener(self._session_changed)
        self._lock._tidy()
        return True

    def _extend(self, seconds: float) -> bool:
        raise LockUnsupported("it lasts as long as the session; there is no end to move")


class ZooKeeperLock(WaitingLock):
    """A line of nodes under one path; who comes first is in."""

    capabilities = Capabilities(
        fence=True,
        fair=True,
        renewal=True,
        extend=False,
        survives_server_restart=True,
        counts_waiters=True,
    )

    def __init__(self, client: KazooClient, name: str, **options: Any) -> None:
        """Make a handle of the lock `name` in the session of `client`."""
        super().__init__(name, **options)
        self.client = client
        self.path = f"{ROOT}/{quote(name, safe='')}"

    def session_seconds(self) -> float:
        """Return after how long a silent session ends, as agreed with the ensemble."""
        return float(self.client._session_timeout) / 1000

    def _acquire(self, deadline: Deadline) -> Lease:
        ticket = uuid.uuid4().hex  # finds our node again if the answer to its creation is lost
        try:
            node, czxid = self._join(ticket)
            self._wait_for_turn(node, deadline)
            return NodeLease(self, f"{self.path}/{node}", czxid)
        except NoNodeError as error:
            raise LockUnavailable("the session ended while waiting") from error
        except BaseException:
            self._leave(ticket)
            raise

    def _join(self, ticket: str) -> tuple[str, int]:
        """Put our node at the end of the line; its name, and its place in the history."""
        end = self.clock.monotonic() + ANSWER_TIMEOUT
        while True:
            try:
                path, stat = self._ask_once(
                    self.client.create_async,
                    f"{self.path}/{ticket}-",
                    self.owner_name.encode(),
                    ephemeral=True,
                    sequence=True,
                    makepath=True,
                    include_data=True,
                )
                return path.rpartition("/")[2], stat.czxid
            except DROPPED as error:
                for node in self._line():
                    if node.startswith(ticket):
                        stat = self._ask(self.client.exists_async, f"{self.path}/{node}")
                        return node, stat.czxid
                if self.clock.monotonic() > end:
                    raise LockUnavailable("ZooKeeper: the connection is lost") from error

    def _wait_for_turn(self, node: str, deadline: Deadline) -> None:
        woken = threading.Event()

        def wake(_: object) -> None:
            woken.set()

        # A change of the connection wakes us too: a watch does not outlive it.
        self.client.add_listener(wake)
        try:
            while True:
                woken.clear()
                line = self._line()
                if node not in line:
                    raise NoNodeError
                place = line.index(node)
                if place == 0:
                    return
                before = f"{self.path}/{line[place - 1]}"
                if self._ask(self.client.exists_async, before, watch=wake) is None:
                    continue
                left = deadline.left()
                if not woken.wait(None if left == inf else left) and deadline.left() <= 0:
                    raise LockTimeout(f"not free within {deadline.elapsed():.3f} s")
        finally:
            self.client.remove_listener(wake)

    def _line(self) -> list[str]:
        """Return the nodes in the order of their arrival."""
        try:
            nodes = self._ask(self.client.get_children_async, self.path)
        except NoNodeError:
            return []
        # A sequence number is ten digits, and negative after 2**31; the line is never that long.
        return sorted(nodes, key=lambda node: node.rpartition("-")[2])

    def _leave(self, ticket: str) -> None:
        """Take our node out of the line; in the background if nobody answers now."""
        try:
            self._remove(ticket)
        except (LockUnavailable, KazooException):
            self.client.handler.spawn(self._leave_later, ticket)

    def _leave_later(self, ticket: str) -> None:
        # The node is gone with its session; if the session recovers, the node must not stay.
        session = self.client.client_id
        while session is not None and self.client.client_id == session:
            try:
                self._remove(ticket)
            except (LockUnavailable, KazooException):
                self.client.handler.sleep_func(CLEANUP_PAUSE)
            else:
                return

    def _remove(self, ticket: str) -> None:
        for node in self._line():
            if node.startswith(ticket):
                self._ask(self.client.delete_async, f"{self.path}/{node}")
        self._tidy()

    def _tidy(self) -> None:
        """Delete the line itself if it is empty; refused by the server if it is not."""
        self.client.delete_async(self.path)

    def _ask(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run an operation that may be repeated, over a reconnect if need be."""
        end = self.clock.monotonic() + ANSWER_TIMEOUT
        while True:
            try:
                return self._ask_once(operation, *arguments, **options)
            except DROPPED as error:
                if self.clock.monotonic() > end:
                    raise LockUnavailable(f"ZooKeeper: {error!r}") from error
                self.client.handler.sleep_func(RETRY_PAUSE)

    def _ask_once(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run one operation; one of `DROPPED` if nobody knows whether it was done."""
        try:
            return operation(*arguments, **options).get(timeout=ANSWER_TIMEOUT)
        except (NoNodeError, *DROPPED):
            raise
        except (KazooTimeoutError, KazooException) as error:
            raise LockUnavailable(f"ZooKeeper: {error!r}") from error

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        for node in self._line()[:1]:
            try:
                data, _ = self._ask(self.client.get_async, f"{self.path}/{node}")
            except NoNodeError:
                return self.owner()  # it left in between
            return str(data.decode())
        return None

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        return max(0, len(self._line()) - 1)

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        logger.warning("taking the lock %r away: %s", self.name, reason)
        for node in self._line()[:1]:
            try:
                self._ask(self.client.delete_async, f"{self.path}/{node}")
            except NoNodeError:
                return False
            return True
        return False
