"""Redis clients for locks: time-outs, retries and topology in one place.

By default redis-py retries every command ten times and waits five seconds for each answer.  Buyers
wait behind a lock, so here a command times out after one second, and only code that knows a
repetition to be harmless sends a command twice.
"""

from __future__ import annotations

import re
from threading import RLock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis.asyncio
from redis import Redis, RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import Encoder, parse_url
from redis.exceptions import RedisClusterException

from locking.redis_lock import DEFAULT_TIMEOUT

SCHEMES = ("redis", "rediss", "unix")

ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*:[^\[\]]*)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d+))?")
"""An address in a URL's list of hosts. An IPv6 address is in brackets, because it has colons."""


class LazyCluster(RedisCluster):
    """A cluster's client that asks for its nodes when it is first used.

    redis-py's own asks when it is made, so that no process could start while the cluster is down.
    """

    # What else is read of a client before its first command.
    encoder = Encoder("utf-8", "strict", False)  # type: ignore[no-untyped-call]

    def __init__(self, url: str, nodes: list[ClusterNode], **settings: Any) -> None:
        self._asking = RLock()
        self._asked = False
        self._arguments = {**settings, "url": url}
        self._nodes = nodes

    def __getattr__(self, name: str) -> Any:
        """Ask for the nodes, because redis-py's constructor has not set this attribute yet.

        Raises:
            redis.ConnectionError: no node answers.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        with self._asking:
            if not self._asked:
                self._asked = True  # before, because the constructor looks for attributes as well
                try:
                    super().__init__(startup_nodes=list(self._nodes), **self._arguments)
                except BaseException as error:
                    self._asked = False
                    if isinstance(error, RedisClusterException):
                        raise redis.ConnectionError(str(error)) from error
                    raise
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None

    def close(self) -> None:
        """Close the connections, if there are any; also called when it is deleted."""
        if "nodes_manager" in vars(self):
            super().close()


class _Place(NamedTuple):
    """Where a URL points: what to connect to, and what redis-py calls its place and options."""

    topology: str
    url: str
    hosts: list[tuple[str, int]]
    service: str


def connect(url: str, *, timeout: float = DEFAULT_TIMEOUT, **options: Any) -> Redis | RedisCluster:
    """Return a client for the server, the Sentinels or the cluster at `url`; connects lazily.

    `redis://`, `rediss://` and `unix://` are what redis-py takes.  `redis+cluster://host,host:port`
    names some nodes of a cluster, `redis+sentinel://host:port,host:port/service/db` the Sentinels
    and the name of the service; `rediss+cluster` and `rediss+sentinel` use TLS, for the Sentinels
    too.  `valkey` may stand for `redis`.  `timeout` is in seconds, for connecting and for each
    answer; a query such as `?socket_timeout=2` and further `options` go to redis-py, and the query
    prevails.  Raises ValueError for another kind of URL.
    """
    place = _place(url)
    settings = _settings(redis, place, timeout) | options
    if place.topology == "cluster":
        nodes = [ClusterNode(*host) for host in place.hosts]  # type: ignore[no-untyped-call]
        return LazyCluster(place.url, nodes, **settings)
    client: Redis = _client(redis, place, settings)
    return client


def topology_of(url: str) -> str:
    """Return "sentinel", "cluster", "socket" or "" (one server).

    Raises ValueError for another kind of URL; connects to nothing.
    """
    return _place(url).topology


def connect_async(
    url: str, *, timeout: float = DEFAULT_TIMEOUT, **options: Any
) -> redis.asyncio.Redis | AsyncRedisCluster:
    """Return an asyncio client for the same URLs, with the same settings."""
    place = _place(url)
    settings = _settings(redis.asyncio, place, timeout) | options
    if place.topology == "cluster":
        nodes = [AsyncClusterNode(*host, **settings) for host in place.hosts]
        return AsyncRedisCluster.from_url(place.url, startup_nodes=nodes, **settings)
    client: redis.asyncio.Redis = _client(redis.asyncio, place, settings)
    return client


def _client(package: Any, place: _Place, settings: dict[str, Any]) -> Any:
    """Return a client of one server; `package` is `redis` or `redis.asyncio`."""
    if place.topology == "sentinel":
        settings |= _of_server(dict(package.connection.parse_url(place.url)))
        for_sentinels = _for_sentinels(place, settings)
        manager = package.sentinel.Sentinel(place.hosts, sentinel_kwargs=for_sentinels)
        return manager.master_for(place.service, **settings)
    return package.Redis.from_url(place.url, **settings)


def _settings(package: Any, place: _Place, timeout: float) -> dict[str, Any]:
    retries = 1 if place.topology == "cluster" else 0
    settings = {"retry": package.retry.Retry(NoBackoff(), retries), "socket_timeout": timeout}
    if place.topology != "socket":
        # Keep-alive detects between two sales that a NAT or firewall dropped an idle connection.
        settings |= {"socket_connect_timeout": timeout, "socket_keepalive": True}
    return settings


def _of_server(parsed: dict[str, Any]) -> dict[str, Any]:
    """Return what a URL says of the servers behind Sentinels, which find their addresses."""
    options = {key: value for key, value in parsed.items() if key not in ("host", "port")}
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    return options


def _for_sentinels(place: _Place, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for the Sentinels: without the credentials of the servers.

    They are asked one after the other.  Where packets vanish, asking all of them takes as long as
    one server may take to answer.
    """
    chosen = {
        key: value
        for key, value in settings.items()
        if key.startswith(("socket_", "ssl")) or key == "retry"
    }
    for key in ("socket_timeout", "socket_connect_timeout"):
        if chosen.get(key):
            chosen[key] /= len(place.hosts)
    return chosen


def _place(url: str) -> _Place:
    """Return where a URL points; raise ValueError for one that redis-py cannot parse, too."""
    if not isinstance(url, str):
        raise TypeError(f"a URL is text, not {url!r}")
    place = _parts(url)
    parse_url(place.url)  # type: ignore[no-untyped-call]
    return place


def _parts(url: str) -> _Place:
    scheme, found, rest = url.partition("://")
    scheme, _, topology = scheme.replace("valkey", "redis", 1).partition("+")
    allowed = ("",) if scheme == "unix" else ("", "cluster", "sentinel")
    if not found or scheme not in SCHEMES or topology not in allowed:
        raise ValueError(f"{url!r} is no URL of Redis, Valkey, a cluster or Sentinels")
    if not topology:
        return _Place("socket" if scheme == "unix" else "", f"{scheme}://{rest}", [], "")
    # Not by `urlsplit`, which knows one host: it refuses a list in which one is IPv6 in brackets.
    netloc, path = re.match("([^/?#]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = urlsplit(path)
    credentials, at, hosts = netloc.rpartition("@")
    if topology == "cluster":
        nodes = hosts.split(",")
        _, *others = [_address(node, 6379) for node in nodes]
        return _Place(topology, f"{scheme}://{credentials}{at}{nodes[0]}{path}", others, "")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError(f"{url!r} names no service; write redis+sentinel://host:port/service")
    sentinels = [_address(host, 26379) for host in hosts.split(",")]
    query = f"?{parts.query}" if parts.query else ""
    server = f"{scheme}://{credentials}{at}sentinels/{db}{query}"
    return _Place(topology, server, sentinels, service)


def _address(host: str, default_port: int) -> tuple[str, int]:
    """Return host and port of `host`, `host:port`, `[IPv6]` or `[IPv6]:port`."""
    found = ADDRESS.fullmatch(host)
    if found is None:
        raise ValueError(
            f"{host!r} is no host of a Redis URL; write host:port, with an IPv6 address in brackets"
        )
    return found["ipv6"] or found["name"], int(found["port"] or default_port)
