"""Faults of a bed with several web nodes and several hosts for Celery."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from random import Random

import psutil

from loadtest.faults.bed_fault import BedFault
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Host
from loadtest.faults.processes import lives
from loadtest.faults.redis import connect
from loadtest.faults.target import Target

PORT = 8000
"""Of each web node."""

RESTARTED = 60
"""Seconds for a node to finish its requests and to serve again."""


class WebRollingRestart(BedFault):
    """Each web node is restarted in turn, as for a new version; the next when it serves again."""

    name = "web-rolling-restart"
    what = "the web nodes are restarted one after another, each as its supervisor stops it"
    expected = "no request fails"
    wants_stock = True
    lasts = (0.0, 1.0)

    def inject(self) -> None:  # noqa: D102
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


class BeatHostLost(BedFault):
    """The host of the active beat dies, and with it a worker; the other beat takes over."""

    name = "beat-host-lost"
    what = "the host of the active beat and of one Celery worker dies"
    expected = "the other beat takes over; every order is followed up, each mail is sent once"
    wants_stock = True

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self._redis = connect(target.redis)
        old = self._active()
        if old is None:
            raise FaultFailed("no beat is active")
        self._old = old

    def inject(self) -> None:  # noqa: D102
        self.lose(self._old.name)
        wait_until("the other beat is active", self._is_taken_over, 40)

    def heal(self) -> None:
        """Switch the host on; the shop's supervisor starts its processes again."""
        super().heal()
        self._redis.close()
        wait_until("the host's processes run", lambda: len(self._old.processes()) > 1, 60)

    def _is_taken_over(self) -> bool:
        new = self._active()
        if new is None or new.name == self._old.name:
            return False
        self.promoted(self._old, new)
        return True

    def _active(self) -> Host | None:
        """Return the host of the beat that holds the beats' lock."""
        for key in self._redis.scan_iter("*{celery beat *}"):
            # The lock's value is "fence:token:host/process".
            holder = str(self._redis.get(key)).rpartition("/")[2].rstrip("'")
            for host in self.hosts.hosts.values():
                if holder in {str(each.pid) for each in host.processes()}:
                    return host
        return None


def _ended(process: psutil.Process) -> bool:
    return not lives(process)


def _serves(host: Host) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host.address}:{PORT}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False
