"""The transport of scripts and blocking pops for asyncio; see `redis_transport`.

The tasks of an event loop share its connections (`redis_line`).  Each command has a time-out of its
own, and the connections none: redis-py's would look like an empty answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from functools import partial
from typing import Any

from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from locking.backends._drivers import (
    DEFAULT_TIMEOUT,
    UNREACHABLE,
    ClusterTransport,
    close_with,
    transport_of,
)
from locking.backends.redis_line import Line, Mailbox
from locking.backends.redis_transport import PoolTransport
from locking.redis_client import connect_async


class _Loop:
    """The connections of one event loop to a server, by their use."""

    def __init__(self) -> None:
        self.lines: dict[str, asyncio.Task[Line]] = {}
        self.mailboxes: dict[str, Mailbox] = {}

    async def close(self) -> None:
        """Close what is connected; Sentinel's pool asks for it while another one connects."""
        for use, connecting in list(self.lines.items()):
            line = _connected(connecting)
            if line is not None:
                del self.lines[use]
                await line.close()


def _connected(connecting: asyncio.Task[Line] | None) -> Line | None:
    """Return the connection if it is there; also looks at an error that nobody waits for."""
    if connecting is None or not connecting.done() or connecting.cancelled():
        return None
    return None if connecting.exception() else connecting.result()


class AsyncNodeTransport(PoolTransport):
    """Shared connections to the server of one asyncio client, also through Sentinel.

    Connections belong to the event loop that opened them, so a handle may outlive a loop.
    """

    def __init__(self, pool: Any, *, in_cluster: bool = False) -> None:
        super().__init__(pool, retry=Retry(NoBackoff(), 0), socket_timeout=None)
        self._in_cluster = in_cluster
        self._loops: weakref.WeakKeyDictionary[Any, _Loop] = weakref.WeakKeyDictionary()
        if not in_cluster:
            close_with(pool, "disconnect", self.close)

    def __del__(self) -> None:
        for loop, its in list(self._loops.items()):
            if loop.is_running():
                loop.call_soon_threadsafe(asyncio.ensure_future, its.close())

    async def run(self, words: tuple[str, ...], patience: float | None, script: str) -> Any:
        """See `NodeTransport.run`."""
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        limit = self._limit(patience)
        # A slow renewal must not hold up a release, which could not tell a loss from a repetition
        # then.
        use = "renewals" if script == "renew" else ""
        line = await self.line(use, patience)
        answer = await line.ask(words, limit)
        if task.cancelling() > cancellations:
            raise asyncio.CancelledError  # something below has swallowed it
        return answer

    async def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Wait at most `seconds` for an element of the list, as others of this loop for theirs."""
        its = self._its()
        # On a cluster, the lists of different locks may be on different nodes.
        lock = key.rpartition(":")[0] if self._in_cluster else ""
        mailbox = its.mailboxes.get(lock)
        if mailbox is None:
            mailbox = its.mailboxes[lock] = Mailbox(weakref.proxy(self), f"{lock} waiters")
        return await mailbox.pop(key, seconds, self.timeout)

    def forget(self, key: str) -> None:
        """Keep no message of the list any more."""
        its = self._its()
        for lock, mailbox in list(its.mailboxes.items()):
            if not lock or key.startswith(f"{lock}:"):
                mailbox.forget(key)

    def _its(self) -> _Loop:
        loop = asyncio.get_running_loop()
        its = self._loops.get(loop)
        if its is None:
            its = self._loops[loop] = _Loop()
        return its

    async def line(self, use: str, patience: float | None) -> Line:
        """Return the loop's connection for that use; wait for it at most `patience` seconds."""
        lines = self._its().lines
        line = _connected(lines.get(use))
        if line is not None and line.is_open:
            return line
        connecting = lines.get(use)
        if connecting is None or connecting.done():
            connecting = lines[use] = asyncio.create_task(self._connect())
            connecting.add_done_callback(_connected)
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(connecting)
        except TimeoutError as error:
            raise exceptions.TimeoutError(f"not connected within {patience:.3f} s") from error

    async def _connect(self) -> Line:
        connection = self._make(**self._kwargs)
        limit = self.timeout * (1 + self._sentinels)  # one after the other is asked
        try:
            async with asyncio.timeout(limit):
                await connection.connect()
        except TimeoutError as error:
            await connection.disconnect(nowait=True)
            raise exceptions.TimeoutError(f"not connected within {limit:.3f} s") from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return Line(connection)

    async def search(self, patience: float | None) -> None:
        """Do nothing: the next connection looks for the server."""

    async def close(self) -> None:
        """Close the connections of the running loop."""
        its = self._loops.get(asyncio.get_running_loop())
        if its is not None:
            await its.close()


class AsyncClusterTransport(ClusterTransport):
    """The transport of an asyncio cluster client."""

    def __init__(self, cluster: Any) -> None:
        super().__init__(cluster, self._transport_of)
        self._nodes: dict[str, AsyncNodeTransport] = {}
        close_with(cluster, "aclose", self.close)

    def _transport_of(self, node: Any) -> AsyncNodeTransport:
        known = self._nodes.get(node.name)
        if known is None:
            known = self._nodes[node.name] = AsyncNodeTransport(node, in_cluster=True)
        return known

    def forget(self, key: str) -> None:
        """See `AsyncNodeTransport.forget`."""
        for node in self._nodes.values():
            node.forget(key)

    async def search(self, patience: float | None) -> None:
        """Look which node of the cluster serves which key."""
        limit = DEFAULT_TIMEOUT if patience is None else min(DEFAULT_TIMEOUT, patience)
        with contextlib.suppress(*UNREACHABLE, TimeoutError):
            async with asyncio.timeout(limit):
                await self._cluster.nodes_manager.initialize()

    async def close(self) -> None:
        """Close the idle connections of the running loop to all nodes."""
        for node in self._nodes.values():
            await node.close()


async_transport_for = partial(
    transport_of,
    asynchronous=True,
    connect=connect_async,
    node=AsyncNodeTransport,
    cluster=AsyncClusterTransport,
)
"""Return the transport of an asyncio client, or of a URL; all locks on it share one."""
