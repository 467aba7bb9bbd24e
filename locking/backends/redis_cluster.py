"""The transport on a cluster: that of the node which serves a lock's key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.exceptions import (
    ClusterDownError,
    ConnectionError,  # noqa: A004
    RedisClusterException,
    RedisError,
)

UNREACHABLE = (RedisError, RedisClusterException)
"""The errors of a cluster's client that finds no node; the second are not below the first."""


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
            raise ConnectionError(f"no node is known for {key!r}") from error
        if node is None:
            raise ClusterDownError(f"no node serves {key!r}")
        return self._transport(node)

    def address(self) -> str:
        """Return the addresses of the nodes that the client was given."""
        # Of a client that has not connected yet, only these nodes are known.
        given = vars(self._cluster).get("_nodes")
        nodes = given or self._cluster.nodes_manager.startup_nodes.values()
        return ",".join(sorted(f"{node.host}:{node.port}" for node in nodes))
