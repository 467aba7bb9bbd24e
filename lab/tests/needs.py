"""What only the lab's tests need; `locking/tests/needs.py` says how needs work."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib.util import find_spec

from lab.bed import description
from lab.bed.bed import FRONT
from lab.bed.network import missing
from locking.tests.needs import Need, programs
from locking.tests.other_servers import Etcd
from shop.tests.workers import RabbitMQ


@cache
def _makes_hosts() -> bool:
    """Try it: a container may refuse it to root."""
    if missing():
        return False
    probe = f"probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return made.returncode == 0


@cache
def _has_engine() -> bool:
    asked = "docker info && docker compose version"
    return not subprocess.run(["sh", "-c", asked], capture_output=True, check=False).returncode


HOSTS = Need(
    "network namespaces",
    "root on Linux, allowed to make them, and apt-get install iproute2 nftables",
    _makes_hosts,
)
PROMETHEUS = programs("Prometheus", "prometheus", "promtool", package="prometheus")
NGINX = programs("nginx", "nginx", package="nginx-light")
_HAPROXY = programs("HAProxy", "haproxy", package="haproxy")
_OF_SERVERS = {
    "sentinel": programs("Redis Sentinel", "redis-sentinel", package="redis-sentinel"),
    "etcd": Etcd.need,
    "patroni": programs("Patroni", "patroni", package="patroni python3-etcd postgresql"),
    "database-front": _HAPROXY,
    "pgbouncer": programs("PgBouncer", "pgbouncer", package="pgbouncer"),
    "rabbitmq": RabbitMQ.need,
    FRONT: NGINX,
}


def of_bed(name: str) -> list[Need]:
    """Return what a test bed needs."""
    servers = {server for each in description.read(name).hosts.values() for server in each}
    front = [] if FRONT in servers else [_HAPROXY]
    return [HOSTS, *front, *(need for server, need in _OF_SERVERS.items() if server in servers)]


ENGINE = Need(
    "a Docker engine with Compose v2",
    ".ci/docker-engine install && .ci/docker-engine start && "
    "export $(.ci/docker-engine variables), as root",
    _has_engine,
)
TOOLS_OF_CI = Need(
    "Helm and pip-audit",
    "make .venv/.ci",
    lambda: bool(find_spec("helm_python") and find_spec("pip_audit")),
)
