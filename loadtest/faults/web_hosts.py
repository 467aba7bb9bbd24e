"""Faults of a bed with several web nodes and several hosts for Celery."""

from __future__ import annotations

import time
import urllib.request
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import psutil

from loadtest.fault_needs import BED, CLOCK
from loadtest.faults.fault import FaultFailed, lives, wait_until
from loadtest.faults.hosts import BedFault, Host, LeaderFault
from loadtest.faults.redis import connect

PORT = 8000
"""Of each web node."""

RESTARTED = 60
"""Seconds for a node to finish its requests and to serve again."""

APART = 10.0
"""Seconds between two hosts' clocks."""


class ClocksApart(BedFault):
    """The clocks of web nodes and servers differ by ten seconds, in both directions."""

    name = "clocks-apart"
    what = "the clocks of the hosts are 10 s apart"
    expected = "leases end early or late; nothing is oversold"
    needs = frozenset({BED, CLOCK})
    wants_stock = True

    def strike(self) -> None:  # noqa: D102
        for number, host in enumerate(self._with_clocks()):
            ahead = (0.0, APART, -APART)[number % 3]
            self.hosts.step_clock(host.name, ahead)
            self.did[host.name] = ahead
        time.sleep(1.5)  # a process reads its clock's file once a second

    def heal(self) -> None:  # noqa: D102
        for host in self._with_clocks():
            self.hosts.step_clock(host.name, 0)
        super().heal()

    def _with_clocks(self) -> list[Host]:
        return [host for host in self.hosts.hosts.values() if host.clock]


class WebHostLost(BedFault):
    """The host of a web node dies; the front sends buyers to the others."""

    name = "web-host-lost"
    what = "the host of one web node dies"
    # A front may send a purchase to the next node because the same key never buys twice. So nobody
    # need be in doubt.
    expected = "its requests are unknown, or the front sends them to the others; these go on"
    wants_stock = True
    settles = 30

    def strike(self) -> None:  # noqa: D102
        self._host = self.random.choice(self.hosts.with_role("web"))
        self.lose(self._host.name)

    def settled(self) -> bool:
        """Whether the shop's supervisor has started the web node again."""
        return bool(self._host.processes())


class WebLinkSlow(BedFault):
    """A web node's link becomes slow, to buyers and to servers: what is sent waits in a queue."""

    name = "web-link-slow"
    what = "the link of one web node carries 8 kB a second, and drops what would wait for a second"
    expected = "its buyers wait; the others go on, nothing is oversold"
    wants_stock = True

    def strike(self) -> None:  # noqa: D102
        host = self.random.choice(self.hosts.with_role("web"))
        self.hosts.slow_down(host.name)
        self.did["slow"] = host.name


class BeatHostLost(LeaderFault):
    """The host of the active beat dies, and with it a worker; the other beat takes over."""

    name = "beat-host-lost"
    what = "the host of the active beat and of one Celery worker dies"
    expected = "the other beat takes over; every order is followed up, each mail is sent once"
    wants_stock = True

    def leader(self) -> Host:  # noqa: D102
        if (host := self.heir()) is None:
            raise FaultFailed("no beat is active")
        return host

    def heir(self) -> Host | None:
        """Return the host of the beat that holds the beats' lock."""
        with connect(self.target.redis) as redis:
            for key in redis.scan_iter("*{celery beat *}"):
                # The lock's value is "fence:token:host/process".
                holder = str(redis.get(key)).rpartition("/")[2].rstrip("'")
                for host in self.hosts.hosts.values():
                    if holder in {str(each.pid) for each in host.processes()}:
                        return host
        return None

    def settled(self) -> bool:
        """Whether the shop's supervisor has started the host's processes again."""
        return len(self.old.processes()) > 1


class WebRollingRestart(BedFault):
    """Each web node is restarted in turn, as for a new version; the next when it serves again."""

    name = "web-rolling-restart"
    what = "the web nodes are restarted one after another, each as its supervisor stops it"
    expected = "no request fails"
    wants_stock = True
    lasts = (0.0, 1.0)

    def inject(self) -> None:
        """Restart them; nothing is lost meanwhile."""
        self.strike()

    def strike(self) -> None:  # noqa: D102
        for host in self.hosts.with_role("web"):
            master = self._master(host)
            master.terminate()
            wait_until(f"{host.name} has stopped", partial(_ended, master), RESTARTED)
            wait_until(f"{host.name} serves again", partial(_serves, host), RESTARTED)
            self.did[host.name] = master.pid

    def _master(self, host: Host) -> psutil.Process:
        for process in host.processes():
            with suppress(psutil.NoSuchProcess):
                if process.ppid() == self.target.shop and self.target.web_word in process.cmdline():
                    return process
        raise FaultFailed(f"no web node runs on {host.name}")


def _ended(process: psutil.Process) -> bool:
    return not lives(process)


def _serves(host: Host) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host.address}:{PORT}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False
