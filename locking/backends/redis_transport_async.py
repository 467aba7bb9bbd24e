"""The transport of scripts and blocking pops for asyncio; see `redis_transport`.

It bounds each command by a time-out of its own and gives the connections none, because redis-py's
`asyncio.wait_for` swallows a cancellation on Python 3.11, and its read time-out looks like an empty
answer.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.exceptions import (
    ClusterDownError,
    ConnectionError,  # noqa: A004
    NoScriptError,
    TimeoutError,  # noqa: A004
)

from locking.backends._drivers import Driver, close_with, driver_of, is_foreign, reject, translate
from locking.backends.redis_cluster import MOVED
from locking.backends.redis_protocol import Script
from locking.backends.redis_transport import (
    DEFAULT_TIMEOUT,
    MAX_IDLE,
    NO_ANSWER,
    encode_command,
)

T = TypeVar("T")


class AsyncNodeTransport:
    """Separate connections to the server of one asyncio client, also through Sentinel.

    Connections belong to the event loop that opened them, so a handle may outlive a loop.
    """

    def __init__(self, pool: Any, kind: Any, kwargs: dict[str, Any], driver: Driver) -> None:
        self._errors, self._error = driver.errors, driver.error
        self._pool = pool  # a Sentinel connection refers to it weakly
        self._make = kind
        manager = getattr(pool, "sentinel_manager", None)
        self._sentinels = len(manager.sentinels) if manager else 0
        timeout = kwargs.get("socket_timeout")
        self.timeout: float = DEFAULT_TIMEOUT if timeout is None else timeout
        self._kwargs = {**kwargs, "retry": driver.no_retry(), "socket_timeout": None}
        self._idle: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        if pool is not None:
            close_with(pool, "disconnect", self.close)

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str],
        patience: float | None = None,
    ) -> Any:
        """Run the script by its hash, or in full if the server does not know it."""
        tail = (str(len(keys)), *keys, *args)
        limit = self.timeout if patience is None else min(self.timeout, patience)
        try:
            return await self._ask(limit, patience, "EVALSHA", script.sha, *tail)
        except NoScriptError as unknown:
            # The error and a frame of redis-py refer to each other, and so to our caller's lease.
            unknown.__traceback__ = None
            return await self._ask(limit, patience, "EVAL", script.source, *tail)

    async def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Run BLPOP for `seconds`; allow `patience`, or the client's time-out, for the answer."""
        limit = self.timeout if patience is None else min(self.timeout, patience)
        words = ("BLPOP", key, f"{seconds:.3f}")
        reply = await self._ask(seconds + limit, patience, *words, raw=True)
        return None if reply is None else reply[1]

    async def _ask(
        self, limit: float, patience: float | None, *words: str, raw: bool = False
    ) -> Any:
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        try:
            idle = self._idle.setdefault(asyncio.get_running_loop(), [])
            connection = await self._take(idle, patience)
            async with asyncio.timeout(limit):
                answer = await self._exchange(connection, idle, words, raw)
        except self._error as error:
            if is_foreign(error):
                raise translate(error) from error
            raise
        except builtins.TimeoutError as error:
            raise TimeoutError(f"no answer within {limit:.3f} s") from error
        if task.cancelling() > cancellations:
            raise asyncio.CancelledError  # something below has swallowed it
        return answer

    async def _exchange(
        self, connection: Any, idle: list[Any], words: Sequence[str], raw: bool
    ) -> Any:
        in_step = False
        try:
            await connection.send_packed_command([encode_command(*words)], check_health=False)
            answer = await connection.read_response(disable_decoding=raw)
            in_step = True
            return answer
        except self._errors.ResponseError:
            in_step = True
            raise
        except self._error:
            # After a restart of the server, all idle connections are stale.
            await _close(idle)
            raise
        finally:
            # After a cancellation, the late answer must not be read as another command's.
            if in_step and len(idle) < MAX_IDLE:
                idle.append(connection)
            else:
                await connection.disconnect(nowait=True)

    async def _take(self, idle: list[Any], patience: float | None) -> Any:
        while idle:
            connection = idle.pop()
            # A command on a dead connection would count as "perhaps executed".
            if connection.is_connected and not _has_ended(connection):
                return connection
            await connection.disconnect(nowait=True)
        connection = self._make(**self._kwargs)
        limit = self.timeout * (1 + self._sentinels)  # one after the other is asked
        try:
            async with asyncio.timeout(limit if patience is None else min(limit, patience)):
                # In a task of its own: redis-py's errors keep the frames that they passed, these
                # their callers', and those our caller's lease.
                await asyncio.create_task(connection.connect())
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def close(self) -> None:
        """Close the idle connections of the running loop."""
        await _close(self._idle.get(asyncio.get_running_loop(), []))


async def _close(idle: list[Any]) -> None:
    while idle:
        with contextlib.suppress(OSError):
            await idle.pop().disconnect(nowait=True)


def _has_ended(connection: Any) -> bool:
    reader = getattr(connection, "_reader", None)
    return reader is not None and bool(reader.at_eof())


class AsyncClusterTransport:
    """A transport that finds the cluster node of a key, also after its slot has moved."""

    def __init__(self, cluster: Any, driver: Driver) -> None:
        self._cluster = cluster
        self._driver = driver
        self._nodes: dict[str, AsyncNodeTransport] = {}
        close_with(cluster, "aclose", self.close)

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str],
        patience: float | None = None,
    ) -> Any:
        """Run the script on the node of its keys."""
        return await self._on_node(
            keys[0], patience, lambda node: node.run(script, keys, args, patience)
        )

    async def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Run BLPOP on the node of the key; a slot that moves away ends it with an error."""
        return await self._on_node(key, patience, lambda node: node.pop(key, seconds, patience))

    async def _on_node(
        self, key: str, patience: float | None, ask: Callable[[AsyncNodeTransport], Awaitable[T]]
    ) -> T:
        limit = DEFAULT_TIMEOUT if patience is None else min(DEFAULT_TIMEOUT, patience)
        await self._within(limit, self._cluster.initialize)  # does something the first time only
        try:
            return await ask(self._node_of(key))
        except NO_ANSWER:
            # A replica may have been promoted; the next try asks the other nodes for the slot.
            await self._within(limit, self._cluster.nodes_manager.initialize)
            raise
        except MOVED as moved:
            await self._within(limit, self._cluster.nodes_manager.initialize)
            raise ConnectionError(f"the slot of {key!r} is moving") from moved

    def _node_of(self, key: str) -> AsyncNodeTransport:
        try:
            node = self._cluster.get_node_from_key(key)
        except (self._driver.error, self._driver.cluster_error) as error:
            if is_foreign(error):
                raise translate(error) from error
            raise
        if node is None:
            raise ClusterDownError(f"no node serves {key!r}")
        return self._nodes.setdefault(
            node.name,
            AsyncNodeTransport(None, node.connection_class, node.connection_kwargs, self._driver),
        )

    async def _within(self, limit: float, search: Callable[[], Awaitable[Any]]) -> None:
        try:
            async with asyncio.timeout(limit):
                await search()
        except builtins.TimeoutError as error:
            raise TimeoutError(f"no node was found within {limit:.3f} s") from error
        except (self._driver.error, self._driver.cluster_error) as error:
            if is_foreign(error):
                raise translate(error) from error
            raise

    async def close(self) -> None:
        """Close the idle connections of the running loop to all nodes."""
        for node in self._nodes.values():
            await node.close()


_CLIENTS: dict[str, Any] = {}


def async_transport_for(client: Any) -> Any:
    """Return the transport of an asyncio client, or of a URL; all locks on it share one."""
    known = getattr(client, "_lock_transport", None)
    if known is not None:
        return known
    if isinstance(client, str):
        return async_transport_for(_client_at(client))
    driver = driver_of(client, asynchronous=True)
    if driver is None:
        if not hasattr(client, "run") or not hasattr(client, "pop"):
            reject(client)
        return client
    if driver.cluster:
        made: Any = AsyncClusterTransport(client, driver)
    else:
        pool = client.connection_pool
        made = AsyncNodeTransport(pool, pool.connection_class, pool.connection_kwargs, driver)
    return vars(client).setdefault("_lock_transport", made)


def _client_at(url: str) -> Any:
    from locking.redis_client import connect_async  # it imports this module

    return _CLIENTS.get(url) or _CLIENTS.setdefault(url, connect_async(url))
