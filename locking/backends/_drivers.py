"""The clients that locks accept, redis-py's and valkey-py's, and the nodes of their clusters.

valkey-py is a fork of redis-py.  A lock on a client of valkey-py, for one server only, makes
connections of redis-py to it, so that the package knows one set of connections and of errors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

import redis
from redis.exceptions import ClusterDownError, RedisClusterException, RedisError

MIN_VERSION = 5
"""The oldest redis-py whose connections have the interface that the transports use."""

if int(redis.__version__.partition(".")[0]) < MIN_VERSION:
    raise ImportError(f"locking needs redis-py {MIN_VERSION} or later, not {redis.__version__}")

DEFAULT_TIMEOUT = 1.0
"""Seconds to wait for an answer unless the client sets a time-out: a healthy server takes
milliseconds, and buyers wait behind the caller."""

CLUSTER = "RedisCluster"

UNREACHABLE = (RedisError, RedisClusterException)
"""The errors of a cluster's client that finds no node; the second are not below the first."""

KEPT = (
    *("host", "port", "path", "socket_", "ssl", "db", "protocol"),
    *("username", "password", "credential_provider", "client_name"),
)
"""The settings of valkey-py's connections that say where the server is and who asks."""

_CLIENTS: dict[tuple[str, bool], Any] = {}


def transport_of(
    client: Any,
    *,
    asynchronous: bool,
    connect: Callable[[str], Any],
    node: Callable[[Any], Any],
    cluster: Callable[[Any], Any],
) -> Any:
    """Return the transport of a client, or of a URL; all locks on it share one.

    `connect` makes a client of a URL; `node` and `cluster` make the transport.  It is an attribute
    of the client: a table with the clients as weak keys would keep them forever, because a
    cluster's transport refers to its client.  Raises TypeError for an asyncio client where a
    blocking one is needed, and the other way round.
    """
    if isinstance(client, str):
        client = _CLIENTS.get((client, asynchronous)) or _CLIENTS.setdefault(
            (client, asynchronous), connect(client)
        )
    known = getattr(client, "_lock_transport", None)
    if known is not None:
        return known
    for each in type(client).__mro__:
        package, _, module = each.__module__.partition(".")
        if package not in ("redis", "valkey") or each.__name__ not in ("Redis", "Valkey", CLUSTER):
            continue
        if module.startswith("asyncio") is not asynchronous:
            kinds = ("an asyncio", "a blocking") if asynchronous else ("a blocking", "an asyncio")
            hint = "a RedisLock" if asynchronous else "an AsyncRedisLock"
            raise TypeError(f"this lock needs {kinds[0]} client; {kinds[1]} client makes {hint}")
        made = cluster(client) if each.__name__ == CLUSTER else node(client.connection_pool)
        return vars(client).setdefault("_lock_transport", made)  # atomic
    if hasattr(client, "run") and hasattr(client, "pop"):
        return client  # a transport
    raise TypeError(f"a lock needs a client of redis-py or valkey-py, or a URL, not {client!r}")


def settings_of(pool: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the class of a pool's connections, as redis-py has it, and their settings."""
    kind, settings = pool.connection_class, dict(pool.connection_kwargs)
    package, _, module = getattr(kind, "__module__", "").partition(".")
    if package == "valkey":
        kind = getattr(import_module(f"redis.{module}"), kind.__name__, None)
        if kind is None or hasattr(pool, "sentinel_manager"):
            raise TypeError("of valkey-py, a lock takes clients of one server; give it a URL")
        settings = {name: settings[name] for name in settings if name.startswith(KEPT)}
    return kind, settings


def address_of(pool: Any) -> str:
    """Return where a pool of connections leads, in the same words in every process."""
    place = pool.connection_kwargs
    at = getattr(pool, "service_name", None) or place.get("path")
    at = at or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
    return f"{at}/{place.get('db') or 0}"


def close_with(owner: Any, method: str, close: Callable[[], Any]) -> None:
    """Call `close`, and await it if needed, whenever the owner's `method` is called.

    So a client's own `close` also closes the connections that its locks keep.
    """
    # Weak references: neither keeps the other, nor itself, alive.
    closing, owning = weakref.WeakMethod(close), weakref.ref(owner)

    def blocking(*args: Any, **options: Any) -> Any:
        call, own = closing(), owning()
        if call is not None:
            call()
        # Without its owner, which the garbage collector has then taken, there is nothing to close.
        return own and getattr(type(own), method)(own, *args, **options)

    async def awaiting(*args: Any, **options: Any) -> Any:
        call, own = closing(), owning()
        if call is not None:
            await call()
        return own and await getattr(type(own), method)(own, *args, **options)

    setattr(owner, method, awaiting if iscoroutinefunction(close) else blocking)


class ClusterTransport:
    """A transport that finds the cluster node of a key, also after its slot has moved.

    `transport` makes that of a node.  The calls return what the node's transport does: of an
    asyncio client, awaitables.  `search` is the subclass's.
    """

    def __init__(self, cluster: Any, transport: Callable[[Any], Any]) -> None:
        self._cluster = cluster
        self._transport = transport

    def run(self, words: tuple[str, ...], *how: Any) -> Any:
        """Send the command to the node of its first key; see `NodeTransport.run`."""
        return self._node_of(words[3]).run(words, *how)

    def pop(self, key: str, *how: Any) -> Any:
        """Run BLPOP on the node of the key; a slot that moves away ends it with an error."""
        return self._node_of(key).pop(key, *how)

    def server_of(self, key: str) -> Any:
        """Return the transport of the node that serves the key, as far as is known."""
        try:
            return self._node_of(key)
        except RedisError:
            return self

    def _node_of(self, key: str) -> Any:
        try:
            node = self._cluster.get_node_from_key(key)
        except RedisClusterException as error:
            raise redis.ConnectionError(f"no node is known for {key!r}") from error
        if node is None:
            raise ClusterDownError(f"no node serves {key!r}")
        return self._transport(node)

    def address(self) -> str:
        """Return the addresses of the nodes that the client was given."""
        # Of a client that has not connected yet, only these nodes are known.
        given = vars(self._cluster).get("_nodes")
        nodes = given or self._cluster.nodes_manager.startup_nodes.values()
        return ",".join(sorted(f"{node.host}:{node.port}" for node in nodes))
