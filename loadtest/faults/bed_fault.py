"""What faults of whole hosts share, on any bed."""

from __future__ import annotations

import time
from abc import abstractmethod
from random import Random
from typing import ClassVar

from loadtest.fault_needs import BED
from loadtest.faults.fault import Fault, wait_until
from loadtest.faults.hosts import Host, Hosts
from loadtest.faults.target import Target


class BedFault(Fault):
    """A fault of a bed's hosts and of the network between them; healing undoes all of it.

    Attributes:
        settles: seconds until the servers are whole again after it.
    """

    needs = frozenset({BED})
    settles: ClassVar[float] = 60

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.hosts = Hosts.read(target.bed)
        self._dead: list[str] = []

    @abstractmethod
    def strike(self) -> None:
        """Cut, kill or change what this fault is about."""

    def settled(self) -> bool:
        """Whether the servers are whole again."""
        return True

    def inject(self) -> None:
        """Strike, and note the moment from which on the shop has to do without what is lost."""
        self.strike()
        self.lost()

    def lost(self) -> None:
        """Note that moment, unless it is known."""
        self.lost_at = self.lost_at or time.monotonic_ns()

    def lose(self, name: str) -> None:
        """Let a host die."""
        self._dead.append(name)
        self.lost()
        self.did[f"killed on {name}"] = len(self.hosts.power_off(name))

    def heal(self) -> None:
        """Undo all cuts, switch dead hosts on again, and wait until the servers are whole."""
        self.hosts.reconnect()
        for name in self._dead:
            self.hosts.power_on(name)
        self._dead.clear()
        wait_until("the servers are whole", self.settled, self.settles)


class LeaderFault(BedFault):
    """A fault of the host whose server leads, or of the way to it; by default, the host dies.

    Attributes:
        promotes: seconds within which another server leads; 0: none is to.
        old: the host whose server leads at first.
    """

    promotes: ClassVar[float] = 40

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.old = self.leader()

    @abstractmethod
    def leader(self) -> Host:
        """Return the host whose server leads. Raises `FaultFailed`: there is none."""

    @abstractmethod
    def heir(self) -> Host | None:
        """Return another host whose server leads by now; None: there is none."""

    def strike(self) -> None:
        """Let the leader's host die."""
        self.lose(self.old.name)

    def inject(self) -> None:
        """Strike, and wait until another server leads."""
        super().inject()
        if self.promotes:
            wait_until("another server leads", self._is_promoted, self.promotes)

    def _is_promoted(self) -> bool:
        new = self.heir()
        if new is None or new.name == self.old.name:
            return False
        self.did["primary"] = f"{self.old.name} -> {new.name}"
        self.did["promoted after"] = round((time.monotonic_ns() - (self.lost_at or 0)) / 1e9, 2)
        return True
