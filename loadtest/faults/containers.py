"""Faults of the servers of docker/ha: a container is stopped, killed, paused or cut off.

A fault is named by the role of its server, such as PostgreSQL's primary, and finds the container
that plays this role at that moment. The seed draws what is done to it. Then the fault waits until
the shop has sold again without help, does the reverse, and waits until all servers are whole.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from loadtest.compose import EngineFailed, Project
from loadtest.fault_needs import CONTAINERS
from loadtest.faults.fault import Fault, FaultFailed, NotRecovered, Target

POSTGRES = ("postgres1", "postgres2", "postgres3")
REDIS = ("redis", "redis2", "redis3")
SENTINELS = ("sentinel1", "sentinel2", "sentinel3")
RABBITMQ = ("rabbitmq1", "rabbitmq2", "rabbitmq3")
WATCHED = Counter({**dict.fromkeys((*POSTGRES, *REDIS, *SENTINELS, *RABBITMQ), 1), "web": 2})
"""How many healthy containers each service has when all is well."""

NETWORK = "_back"
"""Ends the name of the network on which the servers are."""

GOES_ON = 20
"""Purchases after which the shop counts as selling again."""

SELLS_AGAIN = 150.0
"""Seconds for that."""

WHOLE = 240.0
"""Seconds until all servers are whole again."""

ANSWER = 30.0
"""Seconds for one command inside a container."""

PAUSE = 2.0
"""Seconds between two looks, each of which starts programs."""


class Cluster:
    """The servers of a project with docker/ha."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def shortcoming(self) -> str:
        """Return why the servers are not whole; empty if they run, follow and know each other."""
        try:
            return (
                self._unhealthy() or self._of_postgres() or self._of_redis() or self._of_rabbitmq()
            )
        except EngineFailed as error:
            return str(error)

    def member(self, role: str) -> str:
        """Return the service of PostgreSQL's server with a role. Raises `EngineFailed`."""
        for member in self._members():
            if member["Role"] == role:
                return str(member["Member"])
        raise EngineFailed(f"Patroni has no {role}")

    def redis_primary(self) -> str:
        """Return the service that the Sentinels call the primary. Raises `EngineFailed`."""
        ask = ("redis-cli", "-p", "26379", "sentinel", "get-master-addr-by-name", "shop")
        address, *_ = self.project.inside("sentinel1", *ask, seconds=ANSWER).split()
        return REDIS[int(address.rpartition(".")[2]) - 11]  # as docker/ha/compose.yml has them

    def _unhealthy(self) -> str:
        form = "{{.Service}} {{.State}} {{.Health}}"
        listed = self.project.compose("ps", "--all", "--format", form, seconds=ANSWER)
        healthy = Counter(
            line.split()[0] for line in listed.splitlines() if line.endswith(" running healthy")
        )
        return "".join(
            f"{service} is not healthy; "
            for service, count in WATCHED.items()
            if healthy[service] < count
        )

    def _members(self) -> list[dict[str, Any]]:
        """Return what an agent of Patroni says of all servers. Raises `EngineFailed`."""
        ask = ("patronictl", "-c", "/tmp/patroni.yml", "list", "-f", "json")
        for service in POSTGRES[:-1]:
            try:
                found: list[dict[str, Any]] = json.loads(
                    self.project.inside(service, *ask, seconds=ANSWER)
                )
            except (EngineFailed, ValueError):
                continue
            return found
        raise EngineFailed("no agent of Patroni answers")

    def _of_postgres(self) -> str:
        roles = sorted(member["Role"] for member in self._members())
        whole = ["Leader", "Replica", "Sync Standby"]
        return "" if roles == whole else f"PostgreSQL's servers are {', '.join(roles)}"

    def _of_redis(self) -> str:
        ask = "REDISCLI_AUTH=$REDIS_PASSWORD redis-cli info replication"
        primary = self.project.inside(self.redis_primary(), "sh", "-c", ask, seconds=ANSWER)
        if "role:master" not in primary or "connected_slaves:2" not in primary:
            return "Redis's primary has not two replicas"
        ask_sentinel = ("redis-cli", "-p", "26379", "info", "sentinel")
        watched = self.project.inside("sentinel1", *ask_sentinel, seconds=ANSWER)
        if "status=ok" not in watched or "slaves=2,sentinels=3" not in watched:
            return "the Sentinels do not know all servers"
        return ""

    def _of_rabbitmq(self) -> str:
        """Ask a node's own command, which takes seconds to start."""
        ask = ("rabbitmqctl", "--quiet", "cluster_status", "--formatter", "json")
        joined = json.loads(self.project.inside(RABBITMQ[0], *ask, seconds=ANSWER))["running_nodes"]
        return "" if len(joined) == len(RABBITMQ) else f"RabbitMQ's nodes are {', '.join(joined)}"


Command = Callable[[], object]


def _by(there: str, back: str) -> Callable[[Project, str, str], tuple[Command, Command]]:
    """Return what finds a command of Docker for a container, and its reverse."""

    def find(project: Project, service: str, container: str) -> tuple[Command, Command]:
        run = partial(project.run, "docker")
        return partial(run, there, container), partial(run, back, container)

    return find


def pause(project: Project, service: str, container: str) -> tuple[Command, Command]:
    """Return what freezes a container, and what lets it go on."""

    def freeze() -> None:
        until = time.monotonic() + ANSWER
        while True:
            try:
                project.run("docker", "pause", container)
            except EngineFailed as error:
                # A process of a busy machine may not reach a point where it can be frozen in time.
                if "unable to freeze" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(PAUSE)
            else:
                return

    return freeze, partial(project.run, "docker", "unpause", container)


def cut_off(project: Project, service: str, container: str) -> tuple[Command, Command]:
    """Return what takes a container off the servers' network, and what puts it back.

    It gets its address and its name back.
    """
    found = json.loads(project.run("docker", "inspect", container))[0]
    networks = found["NetworkSettings"]["Networks"]
    [name] = [network for network in networks if network.endswith(NETWORK)]
    run = partial(project.run, "docker", "network")
    place = ("--ip", networks[name]["IPAddress"], "--alias", service, name, container)
    return partial(run, "disconnect", name, container), partial(run, "connect", *place)


ACTS: dict[str, Callable[[Project, str, str], tuple[Command, Command]]] = {
    "stopped": _by("stop", "start"),
    "killed": _by("kill", "start"),
    "paused": pause,
    "cut off": cut_off,
}
"""What is done to a container, by the word for it."""


def purchases(target: Target) -> int | None:
    """Return the purchases of the target's sale so far; None: the shop does not say."""
    url = f"{target.web}{target.figures_path.format(target.sale)}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER) as answer:
            return int(json.load(answer)["purchases"])
    except (OSError, http.client.HTTPException, ValueError):
        return None


class ContainerFault(Fault):
    """Something is done to the container of a server, and undone when the shop sells again."""

    needs = frozenset({CONTAINERS})
    wants_stock = True
    lasts = (1.0, 3.0)

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.cluster = Cluster(Project(Path(target.compose)))
        self._undo: Command | None = None
        self._done = False

    @abstractmethod
    def service(self) -> str:
        """Return the service whose container it is. Raises `EngineFailed`: nobody knows."""

    def inject(self) -> None:
        """Do it, and wait until the shop has sold again."""
        service, act = self.service(), self.random.choice(list(ACTS))
        container = self.random.choice(self.cluster.project.containers(service))
        self.did = {"service": service, "act": act, "container": container[:12]}
        do, self._undo = ACTS[act](self.cluster.project, service, container)
        do()
        self._done = True
        self.lost_at = time.monotonic_ns()
        self._wait_for_sales()
        self.did["sold again after"] = round((time.monotonic_ns() - self.lost_at) / 1e9, 1)

    def heal(self) -> None:
        """Do the reverse, and wait until all servers are whole."""
        if self._undo is not None:
            try:
                self._undo()
            except EngineFailed:
                if self._done:  # otherwise there may have been nothing to undo
                    raise
        began = time.monotonic()
        while reason := self.cluster.shortcoming():
            if time.monotonic() - began > WHOLE:
                raise NotRecovered(f"not whole after {WHOLE:g} s: {reason}")
            time.sleep(PAUSE)
        self.did["whole after"] = round(time.monotonic() - began, 1)

    def _wait_for_sales(self) -> None:
        """Wait until the shop has sold some more by its own figures. Raises `FaultFailed`."""
        deadline = time.monotonic() + SELLS_AGAIN
        before: int | None = None
        while True:
            sold = purchases(self.target)
            before = sold if before is None else before
            if sold is not None and before is not None and sold >= before + GOES_ON:
                return
            if time.monotonic() > deadline:
                raise FaultFailed(f"the shop did not sell again within {SELLS_AGAIN:g} s")
            time.sleep(PAUSE)


class PostgresPrimary(ContainerFault):
    """A standby becomes the primary; the old one comes back as a standby."""

    name = "postgres-primary"
    what = "PostgreSQL's primary stops, dies, freezes or is cut off"
    expected = "a standby takes over; no confirmed order is lost"

    def service(self) -> str:  # noqa: D102
        return self.cluster.member("Leader")


class PostgresStandby(ContainerFault):
    """The other standby becomes the synchronous one."""

    name = "postgres-standby"
    what = "PostgreSQL's synchronous standby stops, dies, freezes or is cut off"
    expected = "commits wait until the other standby is synchronous"

    def service(self) -> str:  # noqa: D102
        return self.cluster.member("Sync Standby")


class RedisPrimary(ContainerFault):
    """A replica becomes the primary."""

    name = "redis-primary"
    what = "Redis's primary stops, dies, freezes or is cut off"
    expected = "sales without the lock until a replica takes over; nothing is oversold"

    def service(self) -> str:  # noqa: D102
        return self.cluster.redis_primary()


class OneSentinel(ContainerFault):
    """Two Sentinels are left, which agree without the third."""

    name = "sentinel"
    what = "a Sentinel stops, dies, freezes or is cut off"
    expected = "nothing"

    def service(self) -> str:  # noqa: D102
        return self.random.choice(SENTINELS)


class RabbitMQNode(ContainerFault):
    """Two nodes are left, and lead the queues."""

    name = "rabbitmq-node"
    what = "a RabbitMQ node stops, dies, freezes or is cut off"
    expected = "the others lead its queues; every order is followed up, each mail is sent once"

    def service(self) -> str:  # noqa: D102
        return self.random.choice(RABBITMQ)


class WebNode(ContainerFault):
    """The other node serves everybody."""

    name = "web-node"
    what = "one of two web nodes stops, dies, freezes or is cut off"
    expected = "its requests are unknown, or nginx sends them to the other; this one goes on"

    def service(self) -> str:  # noqa: D102
        return "web"
