"""A lock on ZooKeeper, by kazoo's lock recipe: a queue of nodes that end with their session.

Each client makes a node and watches the one before its own, so a release wakes one client, in the
order in which they came. A crashed client's node disappears with its session, which kazoo keeps
alive; a lease has no end of its own. The fencing token is the node's `czxid`, which grows with
every write in the ensemble. The lock survives a restart of servers that is shorter than the
session's time-out. A client that is paused for longer does not notice until it runs again and hears
from the ensemble, so pass its token to what the lock guards.

The locks of a process share one `KazooClient`, which the caller has started.

Source: ZooKeeper Recipes, "Locks"; kazoo's `recipe/lock.py`.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import Future, wait
from typing import Any
from urllib.parse import quote

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, KazooException, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from locking.backends.common import Backend, BackendLease
from locking.base import Capabilities, Lease, LockUnavailable

ROOT = "/locks"

ANSWER_TIMEOUT = 2.0
"""Seconds for a connection, and for the answer to a release."""

RECONNECT = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}
"""kazoo's own pause grows to a minute: the session would end although the servers are up again."""


MAX_SILENCE = 10.0
"""Seconds without a connection after which a waiter gives up."""


def zookeeper_client(hosts: str, session: float = 10.0) -> KazooClient:
    """Return a client, not started, whose session ends `session` seconds after its last sign.

    Args:
        hosts: as kazoo takes them: `host:port,host:port/chroot`.
        session: seconds.
    """
    servers, slash, chroot = hosts.partition("/")
    # A server that is starting takes a connection and may never answer. kazoo waits for it for the
    # session's length divided by the number of hosts, so they are listed as often as it takes to
    # try again every two seconds. Otherwise a single server's restart would cost the session.
    times = math.ceil(session / ANSWER_TIMEOUT / len(servers.split(",")))
    repeated = ",".join([servers] * max(1, times))
    return KazooClient(repeated + slash + chroot, timeout=session, connection_retry=RECONNECT)


class ZooKeeperLock(Backend):
    """A queue of nodes in the session of `client`; the first one holds the lock.

    Args:
        client: a started `KazooClient`.
        name: the lock's.
        options: `owner` and `timeout`; see `Backend`.
    """

    server = "ZooKeeper"
    failures = (KazooException, KazooTimeoutError)
    capabilities = Capabilities(
        fence=True, fair=True, renewal=True, survives_restart=True, owner=True, waiters=True,
        force_release=True,
    )  # fmt: skip

    def __init__(self, client: KazooClient, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client = client
        self.path = f"{ROOT}/{quote(name, safe='')}"

    def _acquire(self, deadline: float) -> Lease:
        self._require_connection()
        recipe = self.client.Lock(self.path, self.owner_name)
        blocking = deadline > time.monotonic()
        # In a thread of its own, because kazoo's calls have no end while no server answers.
        done: Future[bool] = Future()
        threading.Thread(target=_acquire_recipe, args=(recipe, blocking, done), daemon=True).start()
        try:
            if not self._wait_for(done, deadline if blocking else math.inf):
                recipe.cancel()
                self._wait_for(done, math.inf)
            if done.result(0):
                return NodeLease(self, recipe)
            raise self._not_in_time()
        except CancelledError as error:
            raise self._not_in_time() from error
        except BaseException:
            # The recipe gives up a node that it cannot delete just now, and a call without an
            # answer may make one later; it would stand in the way of the others until the session
            # ends (kazoo 760).
            recipe.cancel()
            threading.Thread(target=self._clean_up, args=(recipe, done), daemon=True).start()
            raise

    def _wait_for(self, done: Future[bool], deadline: float) -> bool:
        """Wait until the recipe is done or until the deadline (monotonic); return whether it is.

        Raises:
            LockUnavailable: there was no connection for too long.
        """
        silent_since = math.inf
        while not done.done():
            now = time.monotonic()
            silent_since = math.inf if self.client.connected else min(silent_since, now)
            if now - silent_since > MAX_SILENCE:
                raise LockUnavailable("ZooKeeper: not connected")
            if now >= deadline:
                return False
            wait([done], min(1.0, deadline - now))
        return True

    def _require_connection(self) -> None:
        """Wait a moment for a connection; kazoo would wait until the session has ended."""
        give_up = time.monotonic() + ANSWER_TIMEOUT
        while not self.client.connected:
            if time.monotonic() >= give_up:
                raise LockUnavailable("ZooKeeper: not connected")
            time.sleep(0.05)

    def _clean_up(self, recipe: Any, done: Future[bool]) -> None:
        """Delete the node that the recipe has made or will make, as soon as it is done."""
        wait([done])

        def delete_nodes() -> None:
            for node in self.client.get_children(self.path):
                if node.startswith(recipe.prefix):
                    self.client.delete(f"{self.path}/{node}")

        try:
            self.client.retry(delete_nodes)
        except KazooException:
            return  # the session has ended, and the node with it

    def _let_go(self, lease: NodeLease) -> bool:
        repeated, lease.release_sent = lease.release_sent, True
        try:
            # Once, without kazoo's retries: after a repeated delete nobody could know whether
            # the first one has deleted the node.
            self.client.delete_async(lease.path).get(timeout=ANSWER_TIMEOUT)
        except NoNodeError:
            return repeated
        except SessionExpiredError:
            return False
        return True

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        contenders = self._contenders()
        return contenders[0] if contenders else None

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        return max(0, len(self._contenders()) - 1)

    def _contenders(self) -> list[str]:
        with self.asking():
            found: list[str] = self.client.Lock(self.path).contenders()
        return found

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        with self.asking():
            self.client.ensure_path(self.path)
            nodes = self.client.get_children(self.path)
            first = min(nodes, key=lambda node: node[-10:], default=None)
            if first is not None:
                self.client.delete(f"{self.path}/{first}")
        return self._log_eviction(first is not None, reason)


def _acquire_recipe(recipe: Any, blocking: bool, done: Future[bool]) -> None:
    """Acquire kazoo's lock, and note the result."""
    try:
        done.set_result(recipe.acquire(blocking=blocking))
    except BaseException as error:  # noqa: BLE001 - `Future.result` raises it again
        done.set_exception(error)


class NodeLease(BackendLease):
    """A lock held by the node at the head of the queue; it follows the session and the node."""

    __slots__ = ("path", "release_sent")

    def __init__(self, lock: ZooKeeperLock, recipe: Any) -> None:
        super().__init__(lock, recipe)
        self.path = f"{lock.path}/{recipe.node}"
        self.release_sent = False
        self.begin(math.inf)
        lock.client.add_listener(self._follow_session)
        found = lock.client.exists(self.path, watch=self._follow_node)
        if found is None:
            self.mark_lost("its node was deleted")
        else:
            self.token = int(found.czxid)

    def _follow_session(self, state: str) -> bool:
        """Keep the end of the lease in step with the session; for kazoo."""
        if self.released:
            return True  # kazoo removes this listener
        if state == KazooState.LOST:
            self.mark_lost("the session has ended")
        elif state == KazooState.SUSPENDED:
            # The ensemble counts from our last message, which may be two thirds of the session's
            # time-out ago: only then kazoo drops a silent connection.
            self._deadline = time.monotonic() + self._backend.client._session_timeout / 3000
        else:
            self._deadline = math.inf
        return bool(state == KazooState.LOST)

    def _follow_node(self, event: Any) -> None:
        if event.type == "DELETED" and not self.release_sent:
            self.mark_lost("its node was deleted")
