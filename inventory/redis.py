"""This process's connection to Redis, and what inventory uses it for."""

from __future__ import annotations

from functools import cache

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inventory import conf
from inventory.circuit import Circuit
from inventory.hint import Hint
from inventory.preloaded import Counter
from inventory.server import Server
from inventory.turnstile import LEASE, Turnstile
from locking.backends.redis import RedisLock

TIMEOUT = 0.5
"""Seconds for an answer. A healthy Redis takes one millisecond; one that takes longer than this
is left alone (see circuit.py), for buyers are waiting."""


@cache
def client() -> redis.Redis:
    """A client that never retries by itself: what may be sent twice is decided where it is sent."""
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
    """The server that this process's client talks to."""
    return Server()


@cache
def circuit() -> Circuit:
    """The one circuit breaker of this process's Redis."""
    return Circuit()


@cache
def hint() -> Hint:
    """The sold-out hints."""
    return Hint(client(), circuit(), server())


@cache
def counter() -> Counter:
    """The preloaded counters."""
    return Counter(client(), circuit())


def item_lock(name: str) -> RedisLock:
    """The lock of that name. Not renewed: a batch is over long before its lease."""
    return RedisLock(client(), name, lease=LEASE, renew=False)


@cache
def turnstile() -> Turnstile:
    """What lets one process at a time in to an item."""
    return Turnstile(item_lock, circuit())


def _forget() -> None:
    for each in (client, server, circuit, hint, counter, turnstile):
        each.cache_clear()


conf.REDIS_URL.on_change(_forget)
