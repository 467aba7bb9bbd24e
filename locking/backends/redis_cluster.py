"""The transport on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004
    MovedError,
    TryAgainError,
)

from locking.backends._drivers import Driver, is_foreign, translate
from locking.backends.redis_protocol import NO_ANSWER, Script, Transport, Wait
from locking.backends.redis_transport import DEFAULT_TIMEOUT, transport_for, within

MOVED = (MovedError, AskError, TryAgainError)
"""The errors of a cluster node that does not, or not yet, serve the key."""


def address_of_cluster(cluster: Any) -> str:
    """Return the addresses of the nodes that a cluster's client was given."""
    # Of a client that has not connected yet, only these nodes are known.
    given = vars(cluster).get("_nodes")
    nodes = given or cluster.nodes_manager.startup_nodes.values()
    return ",".join(sorted(f"{node.host}:{node.port}" for node in nodes))


class ClusterTransport:
    """A transport that finds the cluster node of a key, also after its slot has moved."""

    def __init__(self, cluster: Any, driver: Driver) -> None:
        self._cluster = cluster
        self._client_of: Callable[[Any], Any] = getattr(cluster, f"get_{driver.package}_connection")

    def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str],
        wait: Wait = None,
        patience: float | None = None,
    ) -> Any:
        """Run the script on the node of its keys."""
        return self._on_node(
            keys[0], patience, lambda node: node.run(script, keys, args, wait, patience)
        )

    def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """Run BLPOP on the node of the key; a slot that moves away ends it with an error."""
        popped: bytes | None = self._on_node(
            key, patience, lambda node: node.pop(key, seconds, patience)
        )
        return popped

    def address(self) -> str:
        """See `Transport.address`."""
        return address_of_cluster(self._cluster)

    def node_of(self, key: str) -> Transport:
        """Return the transport of the node that serves the key, as far as is known."""
        try:
            node = self._cluster.get_node_from_key(key)
        except Exception as error:
            if is_foreign(error):
                raise translate(error) from error
            raise
        if node is None:
            raise ClusterDownError(f"no node serves {key!r}")
        return transport_for(self._client_of(node))

    def _on_node(self, key: str, patience: float | None, ask: Callable[[Transport], Any]) -> Any:
        try:
            return ask(self.node_of(key))
        except NO_ANSWER:
            # A replica may have been promoted; the next try asks the other nodes for the slot.
            self._search(patience)
            raise
        except MOVED as moved:
            self._search(patience)
            raise ConnectionError(f"the slot of {key!r} is moving") from moved

    def _search(self, patience: float | None) -> None:
        limit = DEFAULT_TIMEOUT if patience is None else min(DEFAULT_TIMEOUT, patience)
        try:
            within(limit, self._cluster.nodes_manager.initialize)
        except Exception as error:
            if is_foreign(error):
                raise translate(error) from error
            raise
