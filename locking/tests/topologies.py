"""Clusters, replicas and Sentinels for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from redis import Redis, RedisCluster

from locking.tests.helpers import eventually
from locking.tests.servers import Server, Valkey, free_port

SLOTS = 16384


class Primary(Valkey):
    """A server with more options than the usual ones."""

    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*super().command(), *self.options]


class ClusterNode(Primary):
    def __init__(self) -> None:
        super().__init__()
        self.bus_port = free_port()  # by default the port + 10,000, which may be too high
        self.options = ("--cluster-enabled", "yes", "--cluster-port", str(self.bus_port))


class Replica(Primary):
    def __init__(self, primary: Server) -> None:
        super().__init__()
        self.options = ("--replicaof", "127.0.0.1", str(primary.port))
        self.options += ("--repl-diskless-sync-delay", "0")


class SentinelServer(Primary):
    """Watches one primary under the name "shop"."""

    def __init__(self, primary: Server) -> None:
        super().__init__()
        config = self.home / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.home}\n"
            f"sentinel monitor shop 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds shop 500\n"
            "sentinel failover-timeout shop 3000\n"
        )

    def command(self) -> list[str]:
        return [self.binary, str(self.home / "sentinel.conf"), "--sentinel"]


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
