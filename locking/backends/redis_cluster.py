"""The transport on a cluster, and the choice of the transport for a client."""

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

from locking.backends._drivers import Driver, driver_of, is_foreign, reject, translate
from locking.backends.redis_protocol import Script
from locking.backends.redis_transport import (
    DEFAULT_TIMEOUT,
    NO_ANSWER,
    NodeTransport,
    Transport,
    Wait,
    within,
)

MOVED = (MovedError, AskError, TryAgainError)
"""The errors of a cluster node that does not, or not yet, serve the key."""

_CLIENTS: dict[str, Any] = {}


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


def transport_for(client: Any) -> Transport:
    """Return the transport of a client, or of a URL; all locks on it share one.

    It is an attribute of the client: a table with the clients as weak keys would keep them for
    ever, because a cluster's transport refers to its client.
    """
    known: Transport | None = getattr(client, "_lock_transport", None)
    if known is not None:
        return known
    if isinstance(client, str):
        return transport_for(_client_at(client))
    driver = driver_of(client, asynchronous=False)
    if driver is None:
        if not hasattr(client, "run") or not hasattr(client, "pop"):
            reject(client)
        transport: Transport = client
        return transport
    made = (ClusterTransport if driver.cluster else NodeTransport)(client, driver)
    shared: Transport = vars(client).setdefault("_lock_transport", made)  # atomic
    return shared


def _client_at(url: str) -> Any:
    from locking.redis_client import connect  # it imports this module

    return _CLIENTS.get(url) or _CLIENTS.setdefault(url, connect(url))
