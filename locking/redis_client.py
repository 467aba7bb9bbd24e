"""Redis clients for locks: time-outs, retries and topology in one place.

By default redis-py retries every command ten times and waits five seconds for each answer.  Buyers
wait behind a lock, so here a command times out after one second, and only code that knows a
repetition to be harmless sends a command twice.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import redis.asyncio
from redis import Redis, RedisCluster, Sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from locking.backends.redis_transport import DEFAULT_TIMEOUT


def connect(url: str, *, timeout: float = DEFAULT_TIMEOUT, **options: Any) -> Redis | RedisCluster:
    """Return a client for the server, the Sentinels or the cluster at `url`; connects lazily.

    `redis://`, `rediss://` and `unix://` are what redis-py takes.  `redis+cluster://host:port`
    names any node of a cluster, `redis+sentinel://host:port,host:port/service/db` the Sentinels
    and the name of the service.  `timeout` is in seconds, for connecting and for each answer;
    further `options` go to redis-py.
    """
    settings = _settings(timeout) | options
    parts = urlsplit(url)
    if parts.scheme == "redis+cluster":
        return RedisCluster.from_url(
            url.replace("redis+cluster", "redis", 1), **settings | {"retry": Retry(NoBackoff(), 1)}
        )
    if parts.scheme == "redis+sentinel":
        return _behind_sentinels(url, settings)
    return Redis.from_url(url, **settings | {"retry": Retry(NoBackoff(), 0)})


def connect_async(
    url: str, *, timeout: float = DEFAULT_TIMEOUT, **options: Any
) -> redis.asyncio.Redis:
    """Return an asyncio client for the server at `url`, with the same settings."""
    settings = _settings(timeout) | {"retry": AsyncRetry(NoBackoff(), 0)} | options
    return redis.asyncio.Redis.from_url(url, **settings)


def _settings(timeout: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        # Detects between two sales that a NAT or firewall has dropped an idle connection.
        "socket_keepalive": True,
    }


def _behind_sentinels(url: str, settings: dict[str, Any]) -> Redis:
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError(f"{url!r} names no service; write redis+sentinel://host:port/service")
    sentinels = []
    for host in hosts.split(","):
        address, _, port = host.rpartition(":")
        sentinels.append((address or port, int(port) if address else 26379))
    manager = Sentinel(sentinels, sentinel_kwargs=dict(settings))  # type: ignore[no-untyped-call]
    client: Redis = manager.master_for(  # type: ignore[no-untyped-call]
        service,
        db=int(db or 0),
        username=username or None,
        password=password or None,
        **settings,
        **dict(parse_qsl(parts.query)),
    )
    return client
