"""Faults of a bed with RabbitMQ as Celery's broker on several hosts."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from loadtest.fault_needs import RABBITMQ
from loadtest.faults.bed_fault import BedFault
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Host, Hosts
from loadtest.faults.target import Target

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


class RabbitMQLeaderLost(BedFault):
    """The host of the node that leads the queue dies, and later comes back."""

    name = "rabbitmq-leader-lost"
    what = "the host of the RabbitMQ node that leads the queue dies"
    expected = "another node leads; every order is followed up, each mail is sent once"
    needs = frozenset({RABBITMQ})
    wants_stock = True

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.brokers = Brokers(self.hosts)
        old = self.brokers.leader()
        if old is None:
            raise FaultFailed(f"no node leads the queue {QUEUE}")
        self.old = old

    def inject(self) -> None:  # noqa: D102
        self.lose(self.old.name)
        wait_until("another node leads the queue", self._is_elected, SETTLED)

    def heal(self) -> None:
        """Switch the host on, and wait until all nodes are one cluster."""
        super().heal()
        wait_until("all nodes are one cluster", self.brokers.settled, SETTLED)

    def _is_elected(self) -> bool:
        new = self.brokers.leader(but=self.old)
        if new is not None:
            self.promoted(self.old, new)
        return new is not None
