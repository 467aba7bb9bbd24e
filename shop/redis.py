"""The shop's client of Redis: where it is, and how long anybody waits for it.

`inventory` is given it by the setting `INVENTORY_REDIS`, for the locks of items. The shop itself
counts failed sign-ins there and keeps the queue of orders that expire. Nothing that must not be
lost is in Redis.
"""

from __future__ import annotations

from functools import cache

from django.conf import settings
from redis import Redis, RedisCluster

from inventory.conf import on_change
from inventory.redis import forget_client
from locking.redis_client import connect

TIMEOUT = 0.5
"""Seconds to wait for an answer. A healthy Redis takes a millisecond; buyers cannot wait longer
for an unhealthy one (see `inventory.redis.Circuit`)."""

CONNECT_TIMEOUT = 0.25
"""Seconds to wait for a connection, which the server's kernel accepts while the server is busy. A
lost packet is repeated after a second, so a longer wait below that gains nothing."""

MAX_CONNECTIONS = 1000
"""Per process: one for each item that it sells and each caller that waits for a lock, not one for
each buyer."""


@cache
def client() -> Redis | RedisCluster:
    """Return this process's client, which connects when it is first used and never retries: the
    caller decides what may be sent twice.

    On a cluster it tries a second time, after it has asked for the nodes again.

    Raises:
        ValueError: `REDIS_URL` is no address of Redis.
    """
    return connect(
        settings.REDIS_URL,
        timeout=TIMEOUT,
        socket_connect_timeout=CONNECT_TIMEOUT,
        max_connections=MAX_CONNECTIONS,
    )


# A test that names another Redis gets another client.
for _stale in (client.cache_clear, forget_client):
    on_change("REDIS_URL", _stale)
