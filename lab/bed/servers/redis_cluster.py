"""Redis Cluster: three primaries that share the slots, each with a replica (the demo's Valkey)."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import redis

from lab.bed.servers.redis import command
from lab.bed.servers.server import Place
from loadtest.faults.cluster_hosts import NAME, Cluster
from loadtest.faults.hosts import Host
from loadtest.faults.redis_hosts import PORT, client_of

SLOTS = 16384

DOWN_AFTER = 1000
"""Milliseconds without an answer after which a node calls another one down."""


def node(place: Place, host: Host) -> None:
    """Set a node up, which knows no others yet."""
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_AFTER)]
    place.add(host, NAME, [*command(place, host), *options], place.clock_of(host))


def url(place: Place) -> str:
    """Return the URL by which the shop finds the nodes."""
    nodes = ",".join(f"{address}:{PORT}" for address in place.addresses(NAME))
    return f"redis+cluster://{nodes}"


def ready(place: Place) -> bool:
    """Join the nodes to a cluster, as far as they are not; return whether it serves all slots."""
    cluster = Cluster(place.hosts)
    with suppress(redis.RedisError):
        _join(place)
        return cluster.settled()
    return False


def _join(place: Place) -> None:
    """Give the first half of the nodes the slots, let all meet, and make the others replicas."""
    hosts = [place.hosts[name] for name in place.description.hosts_of(NAME)]
    half = len(hosts) // 2
    with ExitStack() as cleanup:
        nodes = [cleanup.enter_context(client_of(host, PORT)) for host in hosts]
        if len(nodes[0].execute_command("CLUSTER NODES")) == 1:
            for each in nodes:  # what follows cannot be repeated for those that are up already
                each.ping()
            for number, each in enumerate(nodes):
                each.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                if number < half:
                    begin, end = (SLOTS * (number + more) // half for more in (0, 1))
                    each.execute_command("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
            for host in hosts[1:]:
                nodes[0].execute_command("CLUSTER", "MEET", host.address, PORT)
        for primary, replica in zip(nodes[:half], nodes[half:], strict=True):
            if replica.info("replication")["role"] == "master":
                primary_id = primary.execute_command("CLUSTER", "MYID")
                replica.execute_command("CLUSTER", "REPLICATE", primary_id)
