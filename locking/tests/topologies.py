"""A Redis Cluster for the tests, and what they do to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from redis import Redis, RedisCluster

from development.servers import ClusterNode
from locking.tests.helpers import eventually

SLOTS = 16384


def is_formed(node: Redis) -> bool:
    info = node.execute_command("CLUSTER INFO")
    return (info["cluster_state"], info["cluster_known_nodes"]) == ("ok", "3")


@pytest.fixture(scope="module")
def cluster_url() -> Iterator[str]:
    """Three primaries that share the slots."""
    with ExitStack() as stack:
        nodes = [ClusterNode() for _ in range(3)]
        for node in nodes:
            stack.enter_context(node)
        # A command that is sent again after five seconds, redis-py's time-out, would be refused.
        clients = [stack.enter_context(Redis(port=n.port, socket_timeout=60)) for n in nodes]
        for number, client in enumerate(clients):
            first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        for client in clients:
            eventually(partial(is_formed, client), within=30)
        yield f"redis+cluster://127.0.0.1:{nodes[0].port}"


def move_slot(cluster: RedisCluster, name: str) -> None:
    """Move the slot of a lock that nobody holds to another node."""
    slot, source = cluster.keyslot(name), cluster.get_node_from_key(f"{{{name}}}")
    target = next(node for node in cluster.get_primaries() if node.name != source.name)
    ident = cluster.cluster_myid(target)
    cluster.delete(f"lock:{{{name}}}:fence")  # an empty slot moves without its keys
    for node in (target, source, *cluster.get_primaries()):
        on_node = cluster.get_redis_connection(node)
        on_node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ident)


def in_sync(primary: Redis) -> bool:
    primary.incr("a write")
    return bool(primary.execute_command("WAIT", 1, 100) == 1)
