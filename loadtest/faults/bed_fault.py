"""Faults of whole hosts, on any bed."""

from __future__ import annotations

import time
from random import Random

from loadtest.fault_needs import BED, CLOCK
from loadtest.faults.fault import Fault, wait_until
from loadtest.faults.hosts import Host, Hosts
from loadtest.faults.target import Target

APART = 10.0
"""Seconds between two hosts' clocks."""


class BedFault(Fault):
    """A fault of a bed's hosts and of the network between them; healing undoes all of it."""

    needs = frozenset({BED})

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.hosts = Hosts.read(target.bed)
        self._dead: list[str] = []

    def lost(self) -> None:
        """Note the moment from which on the shop has to do without what is lost."""
        self.lost_at = time.monotonic_ns()

    def lose(self, name: str) -> None:
        """Let a host die."""
        self._dead.append(name)
        self.lost()
        self.did[f"killed on {name}"] = len(self.hosts.power_off(name))

    def promoted(self, old: Host, new: Host) -> None:
        """Note that another host's server has taken over, and how long after the loss."""
        self.did["primary"] = f"{old.name} -> {new.name}"
        if self.lost_at:
            self.did["promoted after"] = round((time.monotonic_ns() - self.lost_at) / 1e9, 2)

    def heal(self) -> None:
        """Undo all cuts and switch dead hosts on again."""
        self.hosts.reconnect()
        for name in self._dead:
            self.hosts.power_on(name)
        self._dead.clear()


class WebHostLost(BedFault):
    """The host of a web node dies; the front sends buyers to the others."""

    name = "web-host-lost"
    what = "the host of one web node dies"
    expected = "its requests are unknown; the others go on"
    lasts = (2.0, 4.0)
    leaves_doubt = True

    def inject(self) -> None:  # noqa: D102
        host = self.random.choice(self.hosts.with_role("web"))
        self.lose(host.name)
        self._host = host

    def heal(self) -> None:  # noqa: D102
        super().heal()
        # The shop's supervisor starts it again.
        wait_until("the web node runs", lambda: bool(self._host.processes()), 30)


class WebLinkSlow(BedFault):
    """A web node's link becomes slow, to buyers and to servers: what is sent waits in a queue."""

    name = "web-link-slow"
    what = "the link of one web node carries 8 kB a second, and drops what would wait for a second"
    expected = "its buyers wait; the others go on, nothing is oversold"
    wants_stock = True

    def inject(self) -> None:  # noqa: D102
        host = self.random.choice(self.hosts.with_role("web"))
        self.hosts.slow_down(host.name)
        self.lost()
        self.did["slow"] = host.name


class ClocksApart(BedFault):
    """The clocks of web nodes and servers differ by ten seconds, in both directions."""

    name = "clocks-apart"
    what = "the clocks of the hosts are 10 s apart"
    expected = "leases end early or late; nothing is oversold"
    needs = frozenset({BED, CLOCK})
    wants_stock = True

    def inject(self) -> None:  # noqa: D102
        hosts = [each for each in self.hosts.hosts.values() if each.clock]
        for number, host in enumerate(hosts):
            ahead = (0.0, APART, -APART)[number % 3]
            self.hosts.step_clock(host.name, ahead)
            self.did[host.name] = ahead
        time.sleep(1.5)  # a process reads its clock's file once a second
        self.lost()

    def heal(self) -> None:  # noqa: D102
        for host in self.hosts.hosts.values():
            if host.clock:
                self.hosts.step_clock(host.name, 0)
        super().heal()
