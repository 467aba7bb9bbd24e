"""Transport of a lock's scripts and blocking pops, with its own retries and time-outs.

redis-py's `execute_command` applies one retry and time-out policy to all commands and takes twice
the time of the round trip.  A lock must decide itself: only a script that recognises its token may
be sent again, and a blocking pop needs a longer time-out.
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
except ImportError:  # optional, encodes ten times as fast
    hiredis = None  # type: ignore[assignment]

from locking.backends._sockets import Spinner, is_cooperative, watch
from locking.backends.redis_protocol import Script

NO_ANSWER = (ConnectionError, TimeoutError)
"""The errors of a transport after which it is unknown whether the server ran the command."""

DEFAULT_TIMEOUT = 1.0
"""Seconds to wait for an answer unless the client sets a time-out: a healthy server takes
milliseconds, and buyers wait behind the caller."""

MAX_IDLE = 32
"""The number of idle connections kept per client; only a burst of waiters needs more."""


class Transport(Protocol):
    """The interface through which a lock talks to a server; the simulator has its own."""

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str], wait: Wait = None
    ) -> Any:
        """Run the script once and return its answer; raise one of `NO_ANSWER` or RedisError.

        With `wait`, also send WAIT in the same round trip and return (answer, replicas): how many
        replicas have the script's writes.
        """

    def pop(self, key: str, seconds: float) -> bytes | None:
        """Pop the first element of the list, blocking for at most `seconds`."""


Wait = tuple[int, int] | None
"""(replicas, ms): the arguments of the WAIT command."""


def encode_command(*command: str) -> bytes:
    """Encode a command for the Redis protocol."""
    if hiredis is not None:
        encoded: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
        return encoded
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument.encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Connection(Protocol):
    """The part of redis-py's untyped connection that this module uses."""

    _sock: socket.socket

    def connect(self) -> None: ...  # noqa: D102
    def disconnect(self) -> None: ...  # noqa: D102
    def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None: ...  # noqa: D102
    def read_response(self, **options: Any) -> Any: ...  # noqa: D102


class _PooledConnection:
    """A connection, a check whether it is dead, and a spinner for its answers."""

    __slots__ = ("connection", "has_died", "spinner")

    def __init__(self, connection: Connection) -> None:
        connection.connect()
        self.connection = connection
        self.has_died = is_readable = watch(connection._sock.fileno())
        self.spinner = None if is_cooperative(connection._sock) else Spinner(is_readable)


class NodeTransport:
    """Separate connections to the server of one `redis.Redis`, also through Sentinel."""

    def __init__(self, client: Redis) -> None:
        pool = client.connection_pool
        self._make: Callable[..., Connection] = pool.connection_class
        self._kwargs = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        timeout = self._kwargs.get("socket_timeout")
        self._timeout: float = DEFAULT_TIMEOUT if timeout is None else timeout
        self._kwargs["socket_timeout"] = self._timeout
        if self._kwargs.get("socket_connect_timeout") is None:
            self._kwargs["socket_connect_timeout"] = self._timeout
        # list.pop and list.append are atomic, so no lock is needed; the last used is the warmest.
        self._idle: list[_PooledConnection] = []
        _TRANSPORTS.add(self)

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str], wait: Wait = None
    ) -> Any:
        """Run the script by its hash, or in full if the server does not know it."""
        tail = (str(len(keys)), *keys, *args)
        try:
            return self._ask(("EVALSHA", script.sha, *tail), wait)
        except NoScriptError:
            return self._ask(("EVAL", script.source, *tail), wait)

    def pop(self, key: str, seconds: float) -> bytes | None:
        """Run BLPOP for `seconds`; allow the client's time-out on top for the answer."""
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
            # After a restart of the server, all idle connections are stale.
            self._idle = []
            raise
        except ResponseError:
            # The server has answered; the connection is reusable unless WAIT's answer follows.
            if wait:
                connection.disconnect()
            else:
                self._give_back(pooled)
            raise
        if wait:
            timeout = self._timeout + wait[1] / 1000
            reached = connection.read_response(timeout=timeout, disconnect_on_error=True)
            answer = (answer, reached)
        self._give_back(pooled)
        return answer

    # An error between `_take` and `_give_back` drops the connection, and so closes it: a late
    # answer must never be read as the answer to another command.

    def _take(self) -> _PooledConnection:
        while True:
            try:
                pooled = self._idle.pop()
            except IndexError:
                return _PooledConnection(self._make(**self._kwargs))
            # A command on a dead connection would count as "perhaps executed", so a release after a
            # restart of the server could not tell a lost lease from a repetition.
            if not pooled.has_died():
                return pooled
            pooled.connection.disconnect()

    def _give_back(self, pooled: _PooledConnection) -> None:
        if len(self._idle) < MAX_IDLE:
            self._idle.append(pooled)
        else:
            pooled.connection.disconnect()

    def forget_connections(self) -> None:
        """Drop the connections after a fork without closing them; they belong to the parent."""
        self._idle = []


class ClusterTransport:
    """A transport that finds the cluster node of a key, also after its slot has moved."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str], wait: Wait = None
    ) -> Any:
        """Run the script on the node of its keys."""
        return self._on_node(keys[0], lambda node: node.run(script, keys, args, wait))

    def pop(self, key: str, seconds: float) -> bytes | None:
        """Run BLPOP on the node of the key; a slot that moves away ends it with an error."""
        popped: bytes | None = self._on_node(key, lambda node: node.pop(key, seconds))
        return popped

    def _on_node(self, key: str, ask: Callable[[Transport], Any]) -> Any:
        node = self._cluster.get_node_from_key(key)  # type: ignore[no-untyped-call]
        if node is None:
            raise ClusterDownError(f"no node serves {key!r}")
        try:
            return ask(transport_for(self._cluster.get_redis_connection(node)))
        except NO_ANSWER:
            # A replica may have been promoted; the next try asks the other nodes for the slot.
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
    """Return the transport of a client; all locks on a client share one."""
    if not isinstance(client, Redis | RedisCluster):
        return client
    transport = _TRANSPORT_FOR.get(client)
    if transport is None:
        transport = (
            ClusterTransport(client) if isinstance(client, RedisCluster) else NodeTransport(client)
        )
        transport = _TRANSPORT_FOR.setdefault(client, transport)
    return transport
