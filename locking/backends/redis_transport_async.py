"""The transport of scripts and blocking pops for asyncio; see `redis_transport`.

The tasks of an event loop share its connections (`redis_line`).  Each command has a time-out of its
own, and the connections none: redis-py's would look like an empty answer.
"""

from __future__ import annotations

import asyncio
import builtins
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.exceptions import (
    ClusterDownError,
    ConnectionError,  # noqa: A004
    NoScriptError,
    TimeoutError,  # noqa: A004
)

from locking.backends._drivers import (
    Driver,
    address_of,
    close_with,
    driver_of,
    is_foreign,
    reject,
    translate,
)
from locking.backends.redis_cluster import MOVED, address_of_cluster
from locking.backends.redis_line import Line, Mailbox
from locking.backends.redis_protocol import MUTEX, NO_ANSWER, Script, Wait
from locking.backends.redis_transport import DEFAULT_TIMEOUT, encode_command

T = TypeVar("T")


class _Loop:
    """The connections of one event loop to a server."""

    def __init__(self) -> None:
        self.lines: dict[str, asyncio.Task[Line]] = {}
        self.mailboxes: dict[str, Mailbox] = {}

    async def close(self) -> None:
        """Close what is connected; Sentinel's pool asks for it while another one connects."""
        for mailbox in list(self.mailboxes.values()):
            await mailbox.close()
        for use in list(self.lines):
            line = self.line(use)
            if line is not None:
                del self.lines[use]
                await line.close()

    def line(self, use: str) -> Line | None:
        """Return the connection for that use, if it is there."""
        connecting = self.lines.get(use)
        if connecting is None or not connecting.done() or connecting.cancelled():
            return None
        return None if connecting.exception() else connecting.result()


class AsyncNodeTransport:
    """Shared connections to the server of one asyncio client, also through Sentinel.

    Connections belong to the event loop that opened them, so a handle may outlive a loop.
    """

    def __init__(
        self,
        pool: Any,
        kind: Any,
        kwargs: dict[str, Any],
        driver: Driver,
        *,
        in_cluster: bool = False,
    ) -> None:
        self._errors, self._error = driver.errors, driver.error
        self._pool = pool  # a Sentinel connection refers to it weakly
        self._make = kind
        manager = getattr(pool, "sentinel_manager", None)
        self._sentinels = len(manager.sentinels) if manager else 0
        timeout = kwargs.get("socket_timeout")
        self.timeout: float = DEFAULT_TIMEOUT if timeout is None else timeout
        self._kwargs = {**kwargs, "retry": driver.no_retry(), "socket_timeout": None}
        self._in_cluster = in_cluster
        self._loops: weakref.WeakKeyDictionary[Any, _Loop] = weakref.WeakKeyDictionary()
        if pool is not None:
            close_with(pool, "disconnect", self.close)

    def __del__(self) -> None:
        for loop, its in list(self._loops.items()):
            if loop.is_running():
                loop.call_soon_threadsafe(asyncio.ensure_future, its.close())

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str],
        wait: Wait = None,
        patience: float | None = None,
    ) -> Any:
        """Run the script by its hash, or in full if the server does not know it."""
        tail = (str(len(keys)), *keys, *args)
        # WAIT holds up the commands behind it. A slow renewal must not hold up a release, which
        # could not tell a loss from a repetition then.
        use = "replicas" if wait else "renewals" if script.name.endswith("renew") else ""
        try:
            return await self._ask(use, ("EVALSHA", script.sha, *tail), wait, patience)
        except NoScriptError as unknown:
            # The error and a frame of redis-py refer to each other, and so to our caller's lease.
            unknown.__traceback__ = None
            return await self._ask(use, ("EVAL", script.source, *tail), wait, patience)

    async def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Wait at most `seconds` for an element of the list, as others of this loop for theirs."""
        its = self._its()
        # On a cluster, the lists of different locks may be on different nodes.
        lock = key.rpartition(":")[0] if self._in_cluster else ""
        mailbox = its.mailboxes.get(lock)
        if mailbox is None:
            mailbox = its.mailboxes[lock] = Mailbox(weakref.proxy(self))
        return await mailbox.pop(key, seconds, self.timeout)

    def forget(self, key: str) -> None:
        """Keep no message of the list any more."""
        its = self._its()
        for lock, mailbox in list(its.mailboxes.items()):
            if not lock or key.startswith(f"{lock}:"):
                mailbox.forget(key)

    async def ring(self, bell: str) -> None:
        """Push to a list that a mailbox pops."""
        await self.run(MUTEX.bell, (bell,), ())

    def _its(self) -> _Loop:
        loop = asyncio.get_running_loop()
        its = self._loops.get(loop)
        if its is None:
            its = self._loops[loop] = _Loop()
        return its

    async def _ask(
        self, use: str, words: tuple[str, ...], wait: Wait, patience: float | None
    ) -> Any:
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        limit = self.timeout if patience is None else min(self.timeout, patience)
        commands = [encode_command(words)]
        if wait:
            commands.append(encode_command(("WAIT", *map(str, wait))))
            limit += wait[1] / 1000
        try:
            line = await self._line(use, patience)
            answers = await line.ask(commands, limit)
        except self._error as error:
            if is_foreign(error):
                raise translate(error) from error
            raise
        if task.cancelling() > cancellations:
            raise asyncio.CancelledError  # something below has swallowed it
        return tuple(answers) if wait else answers[0]

    async def _line(self, use: str, patience: float | None) -> Line:
        its = self._its()
        line = its.line(use)
        if line is not None and line.is_open:
            return line
        connecting = its.lines.get(use)
        if connecting is None or connecting.done():
            connecting = its.lines[use] = asyncio.create_task(self.connect())
            connecting.add_done_callback(_observe)
        if patience is None:
            return await asyncio.shield(connecting)
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(connecting)
        except builtins.TimeoutError as error:
            raise TimeoutError(f"not connected within {patience:.3f} s") from error

    async def connect(self) -> Line:
        """Return a new connection."""
        connection = self._make(**self._kwargs)
        limit = self.timeout * (1 + self._sentinels)  # one after the other is asked
        try:
            async with asyncio.timeout(limit):
                await connection.connect()
        except builtins.TimeoutError as error:
            await connection.disconnect(nowait=True)
            raise TimeoutError(f"not connected within {limit:.3f} s") from error
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, self._error) and is_foreign(error):
                raise translate(error) from error
            raise
        return Line(connection, self._errors.ResponseError)

    def address(self) -> str:
        """See `Transport.address`."""
        return address_of(self._pool)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        its = self._loops.get(asyncio.get_running_loop())
        if its is not None:
            await its.close()


def _observe(connecting: asyncio.Task[Line]) -> None:
    """Look at the error of a connection that nobody waits for any more."""
    if not connecting.cancelled():
        connecting.exception()


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
        wait: Wait = None,
        patience: float | None = None,
    ) -> Any:
        """Run the script on the node of its keys."""
        return await self._on_node(
            keys[0], patience, lambda node: node.run(script, keys, args, wait, patience)
        )

    async def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Run BLPOP on the node of the key; a slot that moves away ends it with an error."""
        return await self._on_node(key, patience, lambda node: node.pop(key, seconds, patience))

    def forget(self, key: str) -> None:
        """Keep no message of the list any more."""
        for node in self._nodes.values():
            node.forget(key)

    def address(self) -> str:
        """See `Transport.address`."""
        return address_of_cluster(self._cluster)

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
            AsyncNodeTransport(
                None, node.connection_class, node.connection_kwargs, self._driver, in_cluster=True
            ),
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
