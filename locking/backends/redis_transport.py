"""Transport of a lock's scripts and blocking pops, with its own retries and time-outs.

redis-py's `execute_command` applies one retry and time-out policy to all commands and takes twice
the time of the round trip.  A lock must decide itself: only a script that recognises its token may
be sent again, a blocking pop needs a longer time-out, and no answer is awaited past the deadline.

The connections are separate from those of the client's pool and not counted by its
`max_connections`: every waiter needs one, and a limit would let waiters block a release.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, TypeVar

from redis import exceptions
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from locking.backends._drivers import (
    DEFAULT_TIMEOUT,
    UNREACHABLE,
    ClusterTransport,
    address_of,
    close_with,
    settings_of,
    transport_of,
)
from locking.backends._waiting import started, watch
from locking.backends.redis_lease import TOKENS
from locking.redis_client import connect

T = TypeVar("T")

MAX_IDLE = 32
"""The number of idle connections kept per client; only a burst of waiters needs more."""

SPIN_SECONDS = 100e-6
"""Seconds to poll for an answer before the thread sleeps.  A server on the same machine answers in
half of that, and waking a sleeping thread takes about as long."""

MAX_SKIPPED = 128
"""The largest number of commands without spinning.  The first late answer skips two commands and
each further one doubles the number, so the thread hardly ever spins for a server on a network."""


def encode_command(command: tuple[str, ...]) -> bytes:
    """Encode a command for the Redis protocol."""
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument.encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def within(seconds: float, function: Callable[[], T]) -> T:
    """Return the function's result; raise redis-py's `TimeoutError` after `seconds`.

    For a search that asks several servers in turn, each with its own time-outs and retries.
    """
    try:
        return started(function).result(seconds)
    except TimeoutError as error:
        raise exceptions.TimeoutError(f"no server was found within {seconds:.3f} s") from error


class Spinner:
    """Polls for an answer before the thread sleeps, as long as that is faster.

    On one machine, most of a round trip is spent on sleeping and waking.  Spinning for no longer
    than a sleep costs at most doubles the price (Karlin, Li, Manasse, Owicki: "Empirical studies
    of competitive spinning", SOSP 1991).  After a late answer, the spinner skips some commands;
    each further late answer doubles their number.

    `is_readable(0)` tells whether the answer has arrived.
    """

    __slots__ = ("_is_readable", "_left", "_rest")

    def __init__(self, is_readable: Callable[[float], object]) -> None:
        self._is_readable = is_readable
        self._rest = 1
        self._left = 0

    def spin(self) -> bool:
        """Return True when the answer has arrived, False when it is time to sleep.

        Call it once per command.
        """
        if self._left:
            self._left -= 1
            return False
        give_up = perf_counter() + SPIN_SECONDS
        while not self._is_readable(0):
            if perf_counter() > give_up:
                self._rest = self._left = min(2 * self._rest, MAX_SKIPPED)
                return False
        self._rest = 1
        return True

    def suspend(self) -> None:
        """Skip the largest number of commands: the others in a queue need the processor."""
        self._rest = self._left = MAX_SKIPPED


class Link:
    """A connection; whether it is readable, which means dead while idle; and a spinner.

    `is_readable` waits for the given milliseconds.
    """

    __slots__ = ("connection", "is_readable", "spinner")

    def __init__(self, connection: Any, usual_timeout: float) -> None:
        self.connection = connection
        # The one private attribute that is used; without it, a round trip takes longer.
        sock = getattr(connection, "_sock", None)
        if sock is None:
            self.is_readable: Callable[[float], object] = lambda ms: connection.can_read(ms / 1000)
        else:
            sock.settimeout(usual_timeout)
            self.is_readable = watch(sock.fileno())
        # While a socket of gevent waits, the thread's other greenlets run.
        spins = sock is not None and not type(sock).__module__.startswith("gevent.")
        self.spinner = Spinner(self.is_readable) if spins else None


class PoolTransport:
    """The server of a client's pool, also through Sentinel, with some other `settings`.

    The methods of a blocking transport return what those of an asyncio transport let one await.
    """

    def __init__(self, pool: Any, **settings: Any) -> None:
        self._pool = pool  # a Sentinel connection refers to it weakly
        self._make, usual = settings_of(pool)
        self._kwargs = usual | settings
        timeout = usual.get("socket_timeout")
        self.timeout: float = DEFAULT_TIMEOUT if timeout is None else timeout
        manager = getattr(pool, "sentinel_manager", None)
        self._sentinels = len(manager.sentinels) if manager else 0

    def _limit(self, patience: float | None) -> float:
        return self.timeout if patience is None else min(self.timeout, patience)

    def server_of(self, key: str) -> object:
        """Return what identifies the server that has the key."""
        return self

    def address(self) -> str:
        """Return where the server is, in the same words in every process."""
        return address_of(self._pool)


class NodeTransport(PoolTransport):
    """Separate connections to the server of one client's pool, also through Sentinel."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool, retry=Retry(NoBackoff(), 0))
        # list.pop and list.append are atomic, so no lock is needed; the last used is the warmest.
        self._idle: list[Link] = []
        self._process = TOKENS.process
        close_with(pool, "disconnect", self.close)

    def run(self, words: tuple[str, ...], patience: float | None, script: str) -> Any:
        """Send the command once and return its answer; raise one of `NO_ANSWER` or RedisError.

        `patience` limits the seconds to wait for a connection and for the answer; None: the
        client's time-out.  `script` is the name of its script.
        """
        limit = self._limit(patience)
        link = self._take(limit, patience)
        try:
            answer = _ask(link, words, limit)
        except ResponseError:
            self._give_back(link)  # the server has answered
            raise
        except RedisError:
            link.connection.disconnect()
            self._idle = []  # after a restart of the server, all are stale
            raise
        self._give_back(link)
        return answer

    def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Run BLPOP for `seconds`; allow `patience`, or the client's time-out, for the answer."""
        limit = self._limit(patience)
        link = self._take(limit, patience)
        if link.spinner:
            link.spinner.suspend()
        try:
            reply = _ask(link, ("BLPOP", key, f"{seconds:.3f}"), seconds + limit)
        except RedisError:
            link.connection.disconnect()
            raise
        self._give_back(link)
        return None if reply is None else reply[1]

    # An error between `_take` and `_give_back` drops the connection, and so closes it: a late
    # answer must never be read as the answer to another command.

    def _take(self, limit: float, patience: float | None) -> Link:
        if self._process is not TOKENS.process:
            # After a fork they belong to the parent: dropped, but not closed for it.
            self._idle, self._process = [], TOKENS.process
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return self._connect(limit, patience)
            # A command on a dead connection would count as "perhaps executed", so a release after a
            # restart of the server could not tell a lost lease from a repetition.
            if not link.is_readable(0):
                return link
            link.connection.disconnect()

    def _connect(self, limit: float, patience: float | None) -> Link:
        limits: dict[str, Any] = {"socket_timeout": limit}
        if "path" not in self._kwargs:  # old versions know no such limit for a Unix socket
            usual = self._kwargs.get("socket_connect_timeout")
            limits["socket_connect_timeout"] = limit if usual is None else min(usual, limit)
        connection = self._make(**self._kwargs | limits)
        if self._sentinels:
            within(min(self.timeout * (1 + self._sentinels), patience or inf), connection.connect)
        else:
            connection.connect()
        return Link(connection, self.timeout)

    def _give_back(self, link: Link) -> None:
        if len(self._idle) < MAX_IDLE:
            self._idle.append(link)
        else:
            link.connection.disconnect()

    def forget(self, key: str) -> None:
        """Do nothing: a waiter takes its messages by itself."""

    def search(self, patience: float | None) -> None:
        """Do nothing: the next connection looks for the server."""

    def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.connection.disconnect()


def _ask(link: Link, words: tuple[str, ...], seconds: float) -> Any:
    """Send a command and return its answer, which may take so many seconds."""
    connection = link.connection
    connection.send_packed_command([encode_command(words)], check_health=False)
    if not (link.spinner and link.spinner.spin()) and not link.is_readable(seconds * 1000):
        raise exceptions.TimeoutError(f"no answer within {seconds:.3f} s")
    return connection.read_response(disable_decoding=True)


class BlockingClusterTransport(ClusterTransport):
    """The transport of a blocking cluster client."""

    def __init__(self, cluster: Any) -> None:
        super().__init__(cluster, self._transport_of)

    def _transport_of(self, node: Any) -> Any:
        return transport_for(self._cluster.get_redis_connection(node))

    def forget(self, key: str) -> None:
        """See `NodeTransport.forget`."""

    def search(self, patience: float | None) -> None:
        """Look which node of the cluster serves which key."""
        limit = DEFAULT_TIMEOUT if patience is None else min(DEFAULT_TIMEOUT, patience)
        with suppress(*UNREACHABLE):
            within(limit, self._cluster.nodes_manager.initialize)


transport_for = partial(
    transport_of,
    asynchronous=False,
    connect=connect,
    node=NodeTransport,
    cluster=BlockingClusterTransport,
)
"""Return the transport of a blocking client, or of a URL; all locks on it share one."""
