"""Faults of a bed with RabbitMQ as Celery's broker on several hosts."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from loadtest.fault_needs import RABBITMQ
from loadtest.faults.fault import FaultFailed
from loadtest.faults.hosts import Host, Hosts, LeaderFault

PROGRAMS = Path("/usr/lib/rabbitmq/bin")

QUEUE = "followup"
"""Whose leader is lost; the queues' leaders are usually on one node."""

SETTLED = 90
"""Seconds for a node to find the others again and to catch up."""


def node(address: str) -> str:
    """Return the name of the node at an address."""
    return f"rabbit@{address}"


class Brokers:
    """The nodes of a bed's RabbitMQ."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = {each.address: each for each in hosts.with_role("rabbit")}

    def leader(self, but: Host | None = None) -> Host | None:
        """Return the host of the node that says that it leads the queue; None: none does.

        Args:
            but: a node that is not asked.
        """
        for host in self.hosts.values():
            if host == but:
                continue
            # `--local`: else it asks the others, one of which may be dead.
            with suppress(FaultFailed):
                led = self._ask(host, "list_queues", "name", "--local")
                if any(row["name"] == QUEUE for row in led):
                    return host
        return None

    def running(self, asked: Host) -> set[str]:
        """Return the names of the nodes that one node is joined with, its own included."""
        return set(self._ask(asked, "cluster_status")["running_nodes"])

    def settled(self) -> bool:
        """Whether every node is joined with all others."""
        everyone = {node(address) for address in self.hosts}
        try:
            return all(self.running(host) == everyone for host in self.hosts.values())
        except FaultFailed:
            return False

    def _ask(self, asked: Host, *words: str) -> Any:
        """Return the answer of a node to its own command. Raises `FaultFailed`: there is none."""
        [server] = [each for each in asked.servers if each.name == "rabbitmq"]
        environment = [f"{name}={value}" for name, value in server.environment.items()]
        command = [str(PROGRAMS / "rabbitmqctl"), "--timeout", "5", *words, "--formatter", "json"]
        try:
            return json.loads(asked.run("env", "-i", *environment, *command))
        except ValueError as error:
            raise FaultFailed(f"{asked.name} does not answer: {error}") from error


class RabbitMQLeaderLost(LeaderFault):
    """The host of the node that leads the queue dies, and later comes back."""

    name = "rabbitmq-leader-lost"
    what = "the host of the RabbitMQ node that leads the queue dies"
    expected = "another node leads; every order is followed up, each mail is sent once"
    needs = frozenset({RABBITMQ})
    wants_stock = True
    promotes = settles = SETTLED

    def leader(self) -> Host:  # noqa: D102
        self.brokers = Brokers(self.hosts)
        if (host := self.brokers.leader()) is None:
            raise FaultFailed(f"no node leads the queue {QUEUE}")
        return host

    def heir(self) -> Host | None:  # noqa: D102
        return self.brokers.leader(but=self.old)

    def settled(self) -> bool:
        """Whether all nodes are one cluster."""
        return self.brokers.settled()
