"""The client of Redis that the tests give, as a project does. Its address is `REDIS_URL`."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from redis import Redis, RedisCluster

from inventory.conf import on_change
from inventory.redis import forget_client
from locking.redis_client import connect

PATIENCE = 30.0
"""Seconds: a busy machine is no outage. A server that is gone refuses connections at once."""


@cache
def client() -> Redis | RedisCluster:
    """Return this process's client."""
    return connect(settings.REDIS_URL, timeout=PATIENCE)


SETTINGS = {"INVENTORY_REDIS": f"{__name__}.client"}
"""Of a project that gives this client."""

# A test that names another Redis gets another client.
for _stale in (client.cache_clear, forget_client):
    on_change("REDIS_URL", _stale)
