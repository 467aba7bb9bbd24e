"""Let a standby of the bed `patroni` stop receiving, as it happens on a busy machine.

`python -m lab.bed.tests.standing_still` in a process of its own, which joins the bed's network. It
prints what the servers say before and after the operator has intervened, as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.request
from base64 import b64encode

import psutil

from development.signals import end_on_signals
from lab.bed import operator
from lab.bed.bed import Bed, started
from lab.bed.postgres import CLIENTS
from loadtest.faults.hosts import Host
from loadtest.faults.postgres_hosts import Agents

RELOADED = 3.0
"""Seconds for which the standbys' servers read no configuration."""

LEADER = b64encode(b"/service/shop/leader").decode()


def main() -> None:
    """Start the bed, let the standbys stand still, and wait for the operator."""
    end_on_signals()
    operator.STILL = 5.0
    with started("patroni") as bed:
        agents = Agents(bed.hosts)
        said: list[str] = []
        while not said:  # which server takes the key again is not determined
            said = stand_still(bed, agents)
        agents.wait_until_settled()
        assert bed.operator is not None
        json.dump({"unsettled": said, "done": bed.operator.done}, sys.stdout)


def stand_still(bed: Bed, agents: Agents) -> list[str]:
    """Return why the cluster is not whole after the primary has lost its key and got it back."""
    primary = agents.primary()
    stopped = [
        server
        for host in agents.hosts.values()
        if host.name != primary.name
        for server in servers(host)
    ]
    # The agents remove the connection to the primary from the standbys' configuration, and read
    # the setting back before the servers have reloaded it.
    for each in stopped:
        each.send_signal(signal.SIGSTOP)
    forget_leader(bed)
    time.sleep(RELOADED)
    for each in stopped:
        each.send_signal(signal.SIGCONT)
    reasons = {agents.unsettled()}
    before = time.monotonic()
    while time.monotonic() < before + RELOADED:
        reasons &= {agents.unsettled()}
    return sorted(reasons - {""})


def servers(host: Host) -> list[psutil.Process]:
    """Return the PostgreSQL server on a host, without its own processes."""
    found = [each for each in host.processes() if each.name() == "postgres"]
    return [each for each in found if each.ppid() not in {other.pid for other in found}]


def forget_leader(bed: Bed) -> None:
    """Delete the leader's key from etcd."""
    [host, *_] = bed.hosts.with_role("etcd")
    url = f"http://{host.address}:{CLIENTS}/v3/kv/deleterange"
    urllib.request.urlopen(url, json.dumps({"key": LEADER}).encode(), timeout=5).close()


if __name__ == "__main__":
    main()
