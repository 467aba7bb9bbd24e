"""Faults of a bed with Redis and Sentinels on several hosts."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from loadtest.fault_needs import SENTINEL
from loadtest.faults.bed_fault import BedFault
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Host, Hosts
from loadtest.faults.target import Target

PORT, SENTINEL_PORT = 6379, 26379

SERVICE = "shop"
"""The name under which the Sentinels watch the primary."""

TIMEOUT = 1.0
"""Seconds to wait for an answer; a host may be cut off."""


def client_of(host: Host, port: int) -> redis.Redis:
    """Return a client of the server on a host, which does not wait long."""
    return redis.Redis(
        host.address,
        port,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


class Sentinels:
    """The Redis servers of a bed, and what the Sentinels say of them."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = {each.address: each for each in hosts.with_role("redis")}

    def set(self, host: Host, name: str, value: str) -> None:
        """Change an option of the server on a host."""
        with client_of(host, PORT) as client:
            client.config_set(name, value)

    def replication(self, host: Host) -> dict[str, Any]:
        """Return what a server says of its replication; empty if it does not answer."""
        with client_of(host, PORT) as client, suppress(redis.RedisError):
            return dict(client.info("replication"))
        return {}

    def written(self, host: Host) -> int:
        """Return the bytes of writes that a server has."""
        told = self.replication(host)
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
        return self.replication(primary).get("role") == "master" and all(
            told.get("master_host") == primary.address and told.get("master_link_status") == "up"
            for told in map(self.replication, replicas)
        )


class _OfSentinel(BedFault):
    """A fault of the Redis servers or of the way to them."""

    needs = frozenset({SENTINEL})

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.sentinels = Sentinels(self.hosts)
        self.old = self.sentinels.primary()

    @property
    def webs(self) -> list[str]:
        """The names of the web nodes' hosts."""
        return [each.name for each in self.hosts.with_role("web")]

    @property
    def redises(self) -> list[str]:
        """The names of the Redis servers' hosts."""
        return [each.name for each in self.hosts.with_role("redis")]

    def others(self) -> list[Host]:
        """Return the Redis hosts other than the one that was primary."""
        return [each for each in self.sentinels.hosts.values() if each.name != self.old.name]

    def wait_for_promotion(self) -> Host:
        """Wait until most Sentinels name another primary, and it is one."""

        def is_promoted() -> bool:
            new = self.sentinels.primary()
            role = self.sentinels.replication(new).get("role")
            return new.name != self.old.name and role == "master"

        wait_until("a replica is promoted", is_promoted, 40)
        new = self.sentinels.primary()
        self.promoted(self.old, new)
        return new

    def heal(self) -> None:
        """Join everything again, and wait until all replicas follow one primary."""
        super().heal()
        wait_until("the replicas follow one primary", self.sentinels.settled, 60)


class RedisPrimaryLost(_OfSentinel):
    """The primary's host dies; a Sentinel promotes a replica. The host comes back as a replica."""

    name = "redis-primary-lost"
    what = "the host of Redis' primary dies; Sentinel promotes a replica"
    expected = "sales without the lock until then; nothing is oversold"
    lasts = (1.0, 2.0)

    def inject(self) -> None:  # noqa: D102
        self.lose(self.old.name)
        self.wait_for_promotion()


class RedisStalePromoted(_OfSentinel):
    """A replica misses the last writes, and is then preferred for the promotion."""

    name = "redis-stale-promoted"
    what = "Sentinel promotes a replica that lacks the last seconds"
    expected = "old hints and two holders are possible; nothing is oversold"
    wants_stock = True
    lasts = (1.0, 2.0)

    def inject(self) -> None:  # noqa: D102
        stale = self.others()[0]
        # The replica with the smallest number is chosen, however far behind it is.
        self.sentinels.set(stale, "replica-priority", "1")
        for each in self.others()[1:]:
            self.sentinels.set(each, "replica-priority", "0")
        self.hosts.separate([stale.name], [self.old.name])
        before = self.sentinels.written(stale)
        wait_until("a write is missed", lambda: self.sentinels.written(self.old) > before, 10)
        time.sleep(2)  # a Sentinel reads the priorities once a second
        self.did["bytes of writes lost"] = self.sentinels.written(self.old) - before
        self.lose(self.old.name)
        if (new := self.wait_for_promotion()).name != stale.name:
            raise FaultFailed(f"{new.name} was promoted, and not {stale.name}")

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

    def inject(self) -> None:  # noqa: D102
        first, *rest = self.webs
        new_side = [each.name for each in self.others()]
        self.hosts.separate([self.old.name], [*rest, *new_side, "shop"])
        # The first web node is on the old primary's side.
        self.hosts.separate([first], new_side)
        self.lost()
        self.wait_for_promotion()
        self.did["old primary kept by"] = first

    def heal(self) -> None:  # noqa: D102
        # Asked as soon as it can be again, and before the Sentinels make it a replica.
        self.hosts.reconnect()
        self.did["old primary's role"] = self.sentinels.replication(self.old).get("role", "")
        super().heal()


class RedisCutOff(_OfSentinel):
    """All web nodes lose the way to all Redis servers: packets vanish."""

    name = "redis-cut-off"
    what = "packets between all web nodes and Redis vanish"
    expected = "bounded waits, then sales without the lock"
    wants_stock = True

    def inject(self) -> None:  # noqa: D102
        self.hosts.separate(self.webs, self.redises)
        self.lost()


class WebCutOffFromRedis(_OfSentinel):
    """One web node loses the way to Redis; the others keep it."""

    name = "web-cut-off-from-redis"
    what = "packets between one web node and Redis vanish"
    expected = "it sells without the lock beside the others; nothing is oversold"
    wants_stock = True

    def inject(self) -> None:  # noqa: D102
        one = self.random.choice(self.webs)
        self.hosts.separate([one], self.redises)
        self.lost()
        self.did["cut off"] = one


class RedisOneWay(_OfSentinel):
    """The primary hears its replicas and the Sentinels, but they do not hear it."""

    name = "redis-one-way"
    what = "what Redis' primary sends to its replicas and Sentinels vanishes; the way back works"
    expected = "a replica is promoted; two holders are possible, nothing is oversold"
    wants_stock = True

    def inject(self) -> None:  # noqa: D102
        self.hosts.cut(self.old.name, *(each.name for each in self.others()))
        self.lost()
        self.wait_for_promotion()
