"""A running bed: its hosts, the servers on them, and the URLs by which the shop reaches these."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from development import StackError, leftovers
from development.embedded import EmbeddedServers, ServerUrls, private_servers
from development.folder import make_folder
from development.leftovers import private_folder
from lab.bed import description as descriptions
from lab.bed import postgres, rabbitmq, redis
from lab.bed.description import SHOP, Place, log_tail
from lab.bed.network import joined, network
from lab.bed.operator import Operator, on_duty
from lab.stack.proxies import libfaketime, small_disk
from loadtest.fault_needs import BED, CLOCK, CLUSTER, DISK, PATRONI, RABBITMQ, SENTINEL
from loadtest.faults.hosts import Host, Hosts

READY = 90
"""Seconds for the servers of a bed to find each other."""

POLL = 0.1


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server.

    Attributes:
        set_up: adds one to a host.
        ready: whether all of them have found each other; None: nothing to wait for.
        serves: which URL of the shop it provides: `redis`, `database` or `broker`.
        url: by which the shop reaches it.
        need: what faults need that this server brings.
    """

    set_up: Callable[[Place, Host], object]
    ready: Callable[[Place], bool] | None = None
    serves: str = ""
    url: Callable[[Place], str] | None = None
    need: str = ""


KINDS = {
    "redis": Kind(redis.redis),
    "sentinel": Kind(redis.sentinel, redis.sentinels_ready, "redis", redis.sentinel_url, SENTINEL),
    redis.CLUSTER: Kind(
        redis.cluster_node, redis.cluster_ready, "redis", redis.cluster_url, CLUSTER
    ),
    "etcd": Kind(postgres.etcd),
    "patroni": Kind(postgres.patroni, postgres.ready, "database", postgres.url, PATRONI),
    "database-front": Kind(postgres.front),
    "pgbouncer": Kind(postgres.pgbouncer, None, "database", postgres.bouncer_url),
    "rabbitmq": Kind(rabbitmq.rabbitmq, rabbitmq.ready, "broker", rabbitmq.url, RABBITMQ),
}
"""By the name in the description."""

OF_SHOP = ("web", "celery", "beat")
FRONT = "nginx"
"""In a description, processes of the shop (lab/bed/shop.py) and what stands before its web nodes;
without `FRONT`, that is HAProxy."""

KEPT = ("PATH", "LANG", "HOME", "TZ")
"""Variables that the servers get from this process."""


@dataclass(frozen=True, slots=True)
class Bed:
    """A running bed; this process is on its host `shop`.

    Attributes:
        place: its hosts and files.
        servers: the embedded servers on that host, for what the bed has no server of its own.
        urls: of all servers, as the host `shop` reaches them.
        operator: rebuilds standbys of PostgreSQL; None: there are none.
    """

    place: Place
    servers: EmbeddedServers
    urls: ServerUrls
    operator: Operator | None = None

    @property
    def hosts(self) -> Hosts:
        """Its hosts."""
        return self.place.hosts

    @property
    def shop(self) -> Host:
        """The host on which this process is."""
        return self.hosts[SHOP]

    def has(self) -> frozenset[str]:
        """Return what faults may need of it."""
        kinds = {kind.need for name, kind in KINDS.items() if self.place.description.hosts_of(name)}
        clock = {CLOCK} if libfaketime() else set()
        disk = {DISK} if any(host.disk for host in self.hosts.hosts.values()) else set()
        return frozenset({BED, *kinds, *clock, *disk} - {""})


@contextmanager
def started(name: str) -> Iterator[Bed]:
    """Start a bed and put this process on its host `shop`; afterwards remove everything.

    Raises:
        StackError: the machine does not allow it, or a server does not come up.
    """
    description = descriptions.read(name)
    with ExitStack() as cleanup:
        hosts = cleanup.enter_context(network(description))
        folder = cleanup.enter_context(private_folder())
        cleanup.enter_context(joined(hosts[SHOP]))
        servers = cleanup.enter_context(private_servers())
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        variables = {**kept, leftovers.MARK: str(folder)}
        place = Place(description, hosts, folder, variables)
        for host in hosts.with_role("db"):
            # Of PostgreSQL alone: etcd stops for good when it cannot write.
            folder_of_data = make_folder(place.disk(host) / postgres.FOLDER)
            host.disk = str(cleanup.enter_context(small_disk(folder_of_data)) or "")
        # Before their disks go. At once: their data ends with them.
        cleanup.callback(_kill_all, hosts)
        for host in hosts.hosts.values():
            _set_up(place, host)
        for kind, server in KINDS.items():
            if server.ready and description.hosts_of(kind):
                _wait(place, kind, server.ready)
        watched = description.hosts_of("patroni")
        operator = cleanup.enter_context(on_duty(hosts)) if watched else None
        yield Bed(place, servers, _urls(place, servers.urls), operator)


def _kill_all(hosts: Hosts) -> None:
    """Kill what runs on the hosts, except the one on which this process is."""
    for host in hosts.hosts.values():
        if host.name != SHOP:
            host.kill()


def _set_up(place: Place, host: Host) -> None:
    """Give a host its clock and its servers, and start these."""
    if host.name != SHOP and libfaketime():
        clock = place.disk(host) / "clock"
        clock.write_text("+0\n")
        host.clock = str(clock)
    for server in place.description.hosts[host.name]:
        if server in KINDS:
            KINDS[server].set_up(place, host)
    for each in host.servers:
        host.start(each)


def _wait(place: Place, kind: str, ready: Callable[[Place], bool]) -> None:
    deadline = time.monotonic() + READY
    while not ready(place):
        if time.monotonic() > deadline:
            logs = [
                f"{host.name}: {log_tail(server)}"
                for host in place.hosts.hosts.values()
                for server in host.servers
            ]
            raise StackError(f"The bed's {kind} is not ready:\n" + "\n".join(logs))
        time.sleep(POLL)


def _urls(place: Place, embedded: ServerUrls) -> ServerUrls:
    """Return the URLs of the bed's servers; of the embedded ones where it has none."""
    for name, kind in KINDS.items():
        if kind.url and place.description.hosts_of(name):
            embedded = replace(embedded, **{kind.serves: kind.url(place)})
    return embedded
