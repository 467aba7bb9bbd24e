"""Connections on which a lock's scripts run: no hidden retries, and time-outs that fit.

redis-py's own `execute_command` decides about retries and time-outs for all commands alike, and
takes twice the time of the round trip.  A lock needs its own: a script may be sent again only
where it recognises its token, and a blocking pop must be allowed to block.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004
    MovedError,
    NoScriptError,
    ResponseError,
    TimeoutError,  # noqa: A004
    TryAgainError,
)
from redis.retry import Retry

try:
    import hiredis
except ImportError:  # an option of redis-py's, ten times as fast
    hiredis = None  # type: ignore[assignment]

from locking.backends._sockets import Spinner, is_cooperative, watch
from locking.backends.redis_protocol import Script

NO_ANSWER = (ConnectionError, TimeoutError)
"""What a transport raises when it is not known whether the server has carried the command out."""

DEFAULT_TIMEOUT = 1.0
"""Seconds to wait for an answer if the client does not say: a healthy server takes milliseconds,
and whoever waits here has buyers waiting behind it."""

MAX_IDLE = 32
"""Idle connections kept a client; more were needed only by a burst of waiters."""


class Transport(Protocol):
    """What a lock needs of a server; a simulator may put its own in the place of a client."""

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str], wait: Wait = None
    ) -> Any:
        """Run the script once and return its answer; raises one of `NO_ANSWER` or RedisError.

        With `wait`, also ask in the same round trip how many replicas have the script's writes,
        and return (answer, replicas).
        """

    def pop(self, key: str, seconds: float) -> bytes | None:
        """Take the first element of the list, blocking for at most `seconds`."""


Wait = tuple[int, int] | None
"""(replicas, ms): the arguments of the WAIT command."""


def encode_command(*words: str) -> bytes:
    """Write a command as the protocol wants it."""
    if hiredis is not None:
        in_c: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
        return in_c
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Connection(Protocol):
    """What is used of redis-py's connection, which has no types of its own."""

    _sock: socket.socket

    def connect(self) -> None: ...  # noqa: D102
    def disconnect(self) -> None: ...  # noqa: D102
    def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None: ...  # noqa: D102
    def read_response(self, **options: Any) -> Any: ...  # noqa: D102


class _PooledConnection:
    """A connection, whether it has died since it was last used, and how to wait for its answer."""

    __slots__ = ("connection", "has_died", "spinner")

    def __init__(self, connection: Connection) -> None:
        connection.connect()
        self.connection = connection
        self.has_died = is_readable = watch(connection._sock.fileno())
        self.spinner = None if is_cooperative(connection._sock) else Spinner(is_readable)


class NodeTransport:
    """Connections of its own to the server behind one `redis.Redis`, Sentinel's included."""

    def __init__(self, client: Redis) -> None:
        pool = client.connection_pool
        self._make: Callable[..., Connection] = pool.connection_class
        self._kwargs = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        timeout = self._kwargs.get("socket_timeout")
        self._timeout: float = DEFAULT_TIMEOUT if timeout is None else timeout
        self._kwargs["socket_timeout"] = self._timeout
        if self._kwargs.get("socket_connect_timeout") is None:
            self._kwargs["socket_connect_timeout"] = self._timeout
        # list.pop and list.append are atomic: no lock, and the last used is the warmest.
        self._idle: list[_PooledConnection] = []
        _TRANSPORTS.add(self)

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str], wait: Wait = None
    ) -> Any:
        """Run the script by its hash, or in full where the server does not know it yet."""
        tail = (str(len(keys)), *keys, *args)
        try:
            return self._ask(("EVALSHA", script.sha, *tail), wait)
        except NoScriptError:
            return self._ask(("EVAL", script.source, *tail), wait)

    def pop(self, key: str, seconds: float) -> bytes | None:
        """BLPOP, with the server's and the network's delay allowed on top of `seconds`."""
        pooled = self._take()
        connection = pooled.connection
        if pooled.spinner:
            pooled.spinner.suspend()
        connection.send_packed_command(
            [encode_command("BLPOP", key, f"{seconds:.3f}")], check_health=False
        )
        reply = connection.read_response(
            disable_decoding=True, timeout=seconds + self._timeout, disconnect_on_error=True
        )
        self._give_back(pooled)
        return None if reply is None else reply[1]

    def _ask(self, command: tuple[str, ...], wait: Wait) -> Any:
        pooled = self._take()
        connection = pooled.connection
        commands = [encode_command(*command)]
        if wait:
            commands.append(encode_command("WAIT", *map(str, wait)))
        try:
            connection.send_packed_command(commands, check_health=False)
            if pooled.spinner:
                pooled.spinner.spin()
            answer = connection.read_response(disconnect_on_error=True)
        except NO_ANSWER:
            # After a restart of the server all of them are stale, not just this one.
            self._idle = []
            raise
        except ResponseError:
            # The server answered, so the connection is in step, unless WAIT's answer follows.
            if wait:
                connection.disconnect()
            else:
                self._give_back(pooled)
            raise
        if wait:
            patience = self._timeout + wait[1] / 1000
            reached = connection.read_response(timeout=patience, disconnect_on_error=True)
            answer = (answer, reached)
        self._give_back(pooled)
        return answer

    # Whatever goes wrong between these two leaves the connection to the garbage collector, which
    # closes it: a late answer must never be read as the answer to another command.

    def _take(self) -> _PooledConnection:
        while True:
            try:
                pooled = self._idle.pop()
            except IndexError:
                return _PooledConnection(self._make(**self._kwargs))
            # A command sent on a dead connection would count as "perhaps carried out": a release
            # after a restart of the server could then not tell a lost lease from a repetition.
            if not pooled.has_died():
                return pooled
            pooled.connection.disconnect()

    def _give_back(self, pooled: _PooledConnection) -> None:
        if len(self._idle) < MAX_IDLE:
            self._idle.append(pooled)
        else:
            pooled.connection.disconnect()

    def forget_connections(self) -> None:
        """Leave the connections to the parent process, whose they are."""
        self._idle = []


class ClusterTransport:
    """Finds the node of the lock's slot, and finds it again after the slot has moved."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str], wait: Wait = None
    ) -> Any:
        """Run the script on the node of its keys."""
        return self._on_node(keys[0], lambda node: node.run(script, keys, args, wait))

    def pop(self, key: str, seconds: float) -> bytes | None:
        """BLPOP on the node of the key; a slot that moves away unblocks it with an error."""
        popped: bytes | None = self._on_node(key, lambda node: node.pop(key, seconds))
        return popped

    def _on_node(self, key: str, ask: Callable[[Transport], Any]) -> Any:
        node = self._cluster.get_node_from_key(key)  # type: ignore[no-untyped-call]
        if node is None:
            raise ClusterDownError(f"no node serves {key!r}")
        try:
            return ask(transport_for(self._cluster.get_redis_connection(node)))
        except NO_ANSWER:
            # Perhaps its replica has been promoted: the next try asks the others who serves it.
            self._cluster.nodes_manager.initialize()
            raise
        except (MovedError, AskError, TryAgainError) as moved:
            self._cluster.nodes_manager.initialize()
            raise ConnectionError(f"the slot of {key!r} is moving") from moved


_TRANSPORTS: weakref.WeakSet[NodeTransport] = weakref.WeakSet()
_TRANSPORT_FOR: weakref.WeakKeyDictionary[Any, Transport] = weakref.WeakKeyDictionary()


def _after_fork() -> None:
    for transport in list(_TRANSPORTS):
        transport.forget_connections()


os.register_at_fork(after_in_child=_after_fork)


def transport_for(client: Redis | RedisCluster | Transport) -> Transport:
    """Return the transport of a client: one a client, shared by all locks on it."""
    if not isinstance(client, Redis | RedisCluster):
        return client
    transport = _TRANSPORT_FOR.get(client)
    if transport is None:
        transport = (
            ClusterTransport(client) if isinstance(client, RedisCluster) else NodeTransport(client)
        )
        transport = _TRANSPORT_FOR.setdefault(client, transport)
    return transport
