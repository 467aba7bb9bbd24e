"""This process's connection to Redis: the client, its circuit breaker, and which server answers.

A circuit breaker of our own, twenty lines, because pybreaker holds a lock of the whole process
around every call, so that one item's wait would delay every other item.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from inventory import conf
from inventory.metrics import metrics
from locking import LockUnavailable

T = TypeVar("T")

TIMEOUT = 0.5
"""Seconds for an answer. A healthy Redis takes one millisecond; one that takes longer than this
is left alone (see :class:`Circuit`), because buyers are waiting."""

RETRY_AFTER = 1.0
"""Seconds between attempts on a Redis that does not answer."""

RUN_ID = re.compile(rb"run_id:(\w+)")
"""A server's own name, drawn anew each time that it starts."""


class Circuit:
    """Leaves Redis alone for a while after it has failed."""

    def __init__(self) -> None:
        self._broken = False
        self._retry_at = 0.0

    @property
    def open(self) -> bool:
        """Whether Redis is being left alone."""
        return self._broken

    def ask(self, question: Callable[[], T], otherwise: T) -> T:
        """Ask Redis, unless it has just failed.

        Args:
            question: a call to Redis.
            otherwise: the answer when Redis does not give one.
        """
        if self._broken:
            if time.monotonic() < self._retry_at:
                return otherwise
            # This caller looks whether Redis is back; the others go on without meanwhile.
            self._retry_at = time.monotonic() + RETRY_AFTER
        try:
            answer = question()
        except (RedisError, LockUnavailable):
            self._broken = True
            self._retry_at = time.monotonic() + RETRY_AFTER
            metrics.count("redis_unavailable")
            return otherwise
        self._broken = False
        return answer


class Server:
    """Tracks which Redis server this process talks to, and since when; one per client.

    A promoted replica may lack the last writes of the primary that it replaces. What this process
    reads from a server that it has just met may therefore be older than what was acknowledged.
    """

    def __init__(self) -> None:
        self._run_id = b""
        self._since = -math.inf

    @property
    def known_for(self) -> float:
        """Seconds since another server was met than before; endless if there was but one."""
        return time.monotonic() - self._since

    def meet(self, connection: Any) -> None:
        """Set a new connection up; redis-py calls it (``redis_connect_func``) in place of its own.

        Costs one round trip for each connection, not one for each command.
        """
        connection.on_connect()
        connection.send_command("INFO", "server", check_health=False)
        try:
            told = connection.read_response()
        except ResponseError:
            told = b""  # a server that does not tell may be another one each time
        found = RUN_ID.search(told if isinstance(told, bytes) else str(told).encode())
        run_id = found[1] if found else b""
        if not run_id or (self._run_id and run_id != self._run_id):
            self._since = time.monotonic()
        self._run_id = run_id


@cache
def client() -> redis.Redis:
    """Return a client that never retries by itself: the caller decides what may be sent twice."""
    return redis.Redis.from_url(
        conf.REDIS_URL.get(),
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
        max_connections=1000,
        redis_connect_func=server().meet,
    )


@cache
def server() -> Server:
    """Return the server that this process's client talks to."""
    return Server()


@cache
def circuit() -> Circuit:
    """Return the one circuit breaker of this process's Redis."""
    return Circuit()


for _cached in (client, server, circuit):
    conf.REDIS_URL.on_change(_cached.cache_clear)
