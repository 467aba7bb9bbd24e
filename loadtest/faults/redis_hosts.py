"""Faults of a bed with Redis on several hosts: under Sentinels, or as a Redis Cluster."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import redis

from loadtest.fault_needs import CLUSTER, SENTINEL
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Host, Hosts, LeaderFault
from loadtest.faults.redis import connect

PORT, SENTINEL_PORT = 6379, 26379

SERVICE = "shop"
"""The name under which the Sentinels watch the primary."""

CLUSTER_SERVER = "redis-cluster"
"""The name of the servers of a Redis Cluster."""

ITEM_KEYS = "*{item:*"
"""Of the shop's item locks."""

TIMEOUT = 1.0
"""Seconds to wait for an answer; a host may be cut off."""


def client_of(host: Host, port: int) -> redis.Redis:
    """Return a client of the server on a host, which does not wait long."""
    return connect(f"redis://{host.address}:{port}", TIMEOUT, decode_responses=True)


def replication(host: Host) -> dict[str, Any]:
    """Return what a server says of its replication; empty if it does not answer."""
    with client_of(host, PORT) as client, suppress(redis.RedisError):
        return dict(client.info("replication"))
    return {}


class Sentinels:
    """The Redis servers of a bed, and what the Sentinels say of them."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = {each.address: each for each in hosts.with_role("redis")}

    def set(self, host: Host, name: str, value: str) -> None:
        """Change an option of the server on a host."""
        with client_of(host, PORT) as client:
            client.config_set(name, value)

    def written(self, host: Host) -> int:
        """Return the bytes of writes that a server has."""
        told = replication(host)
        name = "master_repl_offset" if told.get("role") == "master" else "slave_repl_offset"
        return int(told.get(name, 0))

    def primary(self, asked: Host | None = None) -> Host:
        """Return the host of the primary, according to most Sentinels or to the one on a host."""
        votes: list[str] = []
        for host in [asked] if asked else self.hosts.values():
            with suppress(redis.RedisError), client_of(host, SENTINEL_PORT) as client:
                found = client.sentinel_get_master_addr_by_name(SERVICE)
                votes += [found[0]] if found else []
        if not votes:
            raise FaultFailed("no Sentinel answers")
        return self.hosts[max(votes, key=votes.count)]

    def settled(self) -> bool:
        """Whether every Sentinel names the same working primary, whose replicas all follow."""
        others = len(self.hosts) - 1
        try:
            primary = self.primary()
            if any(self.primary(host).name != primary.name for host in self.hosts.values()):
                return False
            for host in self.hosts.values():
                with client_of(host, SENTINEL_PORT) as client:
                    told = client.sentinel_master(SERVICE)
                known = (told["num-other-sentinels"], told["num-slaves"])
                if known != (others, others) or told["is_sdown"] or told["is_odown"]:
                    return False
        except (FaultFailed, redis.RedisError):
            return False
        replicas = [each for each in self.hosts.values() if each is not primary]
        return replication(primary).get("role") == "master" and all(
            told.get("master_host") == primary.address and told.get("master_link_status") == "up"
            for told in map(replication, replicas)
        )


class _OfSentinel(LeaderFault):
    """A fault of the Redis servers or of the way to them."""

    needs = frozenset({SENTINEL})

    def leader(self) -> Host:
        self.sentinels = Sentinels(self.hosts)
        self.webs = [each.name for each in self.hosts.with_role("web")]
        self.redises = [each.name for each in self.hosts.with_role("redis")]
        return self.sentinels.primary()

    def heir(self) -> Host | None:
        """Return the host that most Sentinels name, if its server is a primary."""
        new = self.sentinels.primary()
        return new if replication(new).get("role") == "master" else None

    def others(self) -> list[str]:
        """Return the Redis hosts other than the one that was primary."""
        return [name for name in self.redises if name != self.old.name]

    def settled(self) -> bool:
        """Whether all replicas follow one primary."""
        return self.sentinels.settled()


class RedisPrimaryLost(_OfSentinel):
    """The primary's host dies; a Sentinel promotes a replica. The host comes back as a replica."""

    name = "redis-primary-lost"
    what = "the host of Redis' primary dies; Sentinel promotes a replica"
    expected = "sales without the lock until then; nothing is oversold"
    lasts = (1.0, 2.0)


class RedisStalePromoted(_OfSentinel):
    """A replica misses the last writes, and is then preferred for the promotion."""

    name = "redis-stale-promoted"
    what = "Sentinel promotes a replica that lacks the last seconds"
    expected = "two holders are possible; nothing is oversold"
    wants_stock = True
    lasts = (1.0, 2.0)

    def strike(self) -> None:  # noqa: D102
        self._stale, *rest = [self.hosts[name] for name in self.others()]
        # The replica with the smallest number is chosen, however far behind it is.
        self.sentinels.set(self._stale, "replica-priority", "1")
        for each in rest:
            self.sentinels.set(each, "replica-priority", "0")
        self.hosts.separate([self._stale.name], [self.old.name])
        before = self.sentinels.written(self._stale)
        wait_until("a write is missed", lambda: self.sentinels.written(self.old) > before, 10)
        time.sleep(2)  # a Sentinel reads the priorities once a second
        self.did["bytes of writes lost"] = self.sentinels.written(self.old) - before
        self.lose(self.old.name)

    def inject(self) -> None:  # noqa: D102
        super().inject()
        if (new := self.sentinels.primary()).name != self._stale.name:
            raise FaultFailed(f"{new.name} was promoted, and not {self._stale.name}")

    def heal(self) -> None:  # noqa: D102
        super().heal()
        for each in self.sentinels.hosts.values():
            self.sentinels.set(each, "replica-priority", "100")


class RedisSplit(_OfSentinel):
    """The old primary stays reachable for one web node; all others get a new one."""

    name = "redis-split"
    what = "the network splits: one web node keeps Redis' old primary, the other gets a new one"
    expected = "two holders of each lock; the database decides, nothing is oversold"
    wants_stock = True

    def strike(self) -> None:  # noqa: D102
        self.did["old primary kept by"], *rest = self.webs
        self.hosts.separate([self.old.name], [*rest, *self.others(), "shop"])
        # The first web node is on the old primary's side.
        self.hosts.separate(self.webs[:1], self.others())

    def heal(self) -> None:  # noqa: D102
        # Asked as soon as it can be again, and before the Sentinels make it a replica.
        self.hosts.reconnect()
        self.did["old primary's role"] = replication(self.old).get("role", "")
        super().heal()


class RedisOneWay(_OfSentinel):
    """The primary hears its replicas and the Sentinels, but they do not hear it."""

    name = "redis-one-way"
    what = "what Redis' primary sends to its replicas and Sentinels vanishes; the way back works"
    expected = "a replica is promoted; two holders are possible, nothing is oversold"
    wants_stock = True

    def strike(self) -> None:  # noqa: D102
        self.hosts.cut(self.old.name, *self.others())


class RedisCutOff(_OfSentinel):
    """All web nodes lose the way to all Redis servers: packets vanish."""

    name = "redis-cut-off"
    what = "packets between all web nodes and Redis vanish"
    expected = "bounded waits, then sales without the lock"
    wants_stock = True
    promotes = 0

    def strike(self) -> None:  # noqa: D102
        self.hosts.separate(self.webs, self.redises)


class WebCutOffFromRedis(_OfSentinel):
    """One web node loses the way to Redis; the others keep it."""

    name = "web-cut-off-from-redis"
    what = "packets between one web node and Redis vanish"
    expected = "it sells without the lock beside the others; nothing is oversold"
    wants_stock = True
    promotes = 0

    def strike(self) -> None:  # noqa: D102
        self.did["cut off"] = one = self.random.choice(self.webs)
        self.hosts.separate([one], self.redises)


class Cluster:
    """The nodes of a bed's Redis Cluster."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = [
            host
            for host in hosts.hosts.values()
            if any(server.name == CLUSTER_SERVER for server in host.servers)
        ]

    def state(self, host: Host) -> dict[str, Any]:
        """Return what a node says of the cluster; empty if it does not answer."""
        with client_of(host, PORT) as client, suppress(redis.RedisError):
            return dict(client.execute_command("CLUSTER INFO"))
        return {}

    def replicas(self, primary: Host) -> list[Host]:
        """Return the hosts of a primary's replicas."""
        told = {host.name: replication(host) for host in self.hosts}
        return [
            host for host in self.hosts if told[host.name].get("master_host") == primary.address
        ]

    def primary_with_locks(self) -> Host:
        """Return the host of a primary with an item's lock. Raises `FaultFailed`: there is none."""
        for host in self.hosts:
            if replication(host).get("role") == "master":
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
        told = [replication(host) for host in self.hosts]
        primaries = [each for each in told if each.get("role") == "master"]
        followers = [each for each in told if each.get("master_link_status") == "up"]
        half = len(self.hosts) // 2
        return len(primaries) == len(followers) == half and all(
            each["connected_slaves"] == 1 for each in primaries
        )


class ClusterPrimaryLost(LeaderFault):
    """The host of a primary dies; its replica takes over its slots. It comes back as a replica."""

    name = "cluster-primary-lost"
    what = "the host of the Redis Cluster primary with the item's lock dies; its replica takes over"
    expected = "sales without the lock until then; nothing is oversold"
    needs = frozenset({CLUSTER})
    wants_stock = True
    lasts = (1.0, 2.0)

    def leader(self) -> Host:  # noqa: D102
        self.cluster = Cluster(self.hosts)
        primary = self.cluster.primary_with_locks()
        self.heirs = self.cluster.replicas(primary)
        return primary

    def heir(self) -> Host | None:
        """Return the host of a replica that has become a primary."""
        return next(
            (host for host in self.heirs if replication(host).get("role") == "master"), None
        )

    def settled(self) -> bool:
        """Whether every primary has a replica again."""
        return self.cluster.settled()
