"""Faults of a bed with Redis Cluster on several hosts."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import redis

from loadtest.fault_needs import CLUSTER
from loadtest.faults.bed_fault import BedFault
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Host, Hosts
from loadtest.faults.redis_hosts import PORT, client_of
from loadtest.faults.target import Target

NAME = "redis-cluster"
"""Of the servers."""

ITEM_KEYS = "*{item:*"
"""Of the shop's item locks."""


class Cluster:
    """The nodes of a bed's Redis Cluster."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = [
            host
            for host in hosts.hosts.values()
            if any(server.name == NAME for server in host.servers)
        ]

    def state(self, host: Host) -> dict[str, Any]:
        """Return what a node says of the cluster; empty if it does not answer."""
        with client_of(host, PORT) as client, suppress(redis.RedisError):
            return dict(client.execute_command("CLUSTER INFO"))
        return {}

    def replication(self, host: Host) -> dict[str, Any]:
        """Return what a node says of its replication; empty if it does not answer."""
        with client_of(host, PORT) as client, suppress(redis.RedisError):
            return dict(client.info("replication"))
        return {}

    def replicas(self, primary: Host) -> list[Host]:
        """Return the hosts of a primary's replicas."""
        told = {host.name: self.replication(host) for host in self.hosts}
        return [
            host for host in self.hosts if told[host.name].get("master_host") == primary.address
        ]

    def primary_with_locks(self) -> Host:
        """Return the host of a primary with an item's lock. Raises `FaultFailed`: there is none."""
        for host in self.hosts:
            if self.replication(host).get("role") == "master":
                with client_of(host, PORT) as client:
                    if next(client.scan_iter(ITEM_KEYS, count=1000), None) is not None:
                        return host
        raise FaultFailed("no item was locked yet")

    def settled(self) -> bool:
        """Whether every node knows all others, all slots are served, and all replicas follow."""
        for host in self.hosts:
            state = self.state(host)
            if state.get("cluster_state") != "ok":
                return False
            if int(state["cluster_known_nodes"]) != len(self.hosts):
                return False
        told = [self.replication(host) for host in self.hosts]
        primaries = [each for each in told if each.get("role") == "master"]
        followers = [each for each in told if each.get("master_link_status") == "up"]
        half = len(self.hosts) // 2
        return len(primaries) == len(followers) == half and all(
            each["connected_slaves"] == 1 for each in primaries
        )


class ClusterPrimaryLost(BedFault):
    """The host of a primary dies; its replica takes over its slots. It comes back as a replica."""

    name = "cluster-primary-lost"
    what = "the host of the Redis Cluster primary with the item's lock dies; its replica takes over"
    expected = "sales without the lock until then; nothing is oversold"
    needs = frozenset({CLUSTER})
    wants_stock = True
    lasts = (1.0, 2.0)

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.cluster = Cluster(self.hosts)
        self.old = self.cluster.primary_with_locks()
        self.heirs = self.cluster.replicas(self.old)

    def inject(self) -> None:  # noqa: D102
        self.lose(self.old.name)
        wait_until("its replica takes over", self._is_promoted, 40)

    def heal(self) -> None:
        """Switch the host on, and wait until every primary has a replica again."""
        super().heal()
        wait_until("every primary has a replica", self.cluster.settled, 60)

    def _is_promoted(self) -> bool:
        for heir in self.heirs:
            if self.cluster.replication(heir).get("role") == "master":
                self.promoted(self.old, heir)
                return True
        return False
