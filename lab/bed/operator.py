"""The bed's operator: rebuilds a PostgreSQL standby that has stopped following the primary.

Patroni removes `primary_conninfo` from a standby's configuration while no server holds the leader's
key, reloads, and reads the setting back at once. On a busy machine PostgreSQL has not reloaded by
then, so that Patroni remembers the old setting. If the same server takes the key again, the
remembered setting is the wanted one: the agent reports "no action", and the standby receives
nothing until somebody intervenes (https://github.com/patroni/patroni/issues/3717). With both
standbys in this state, a strictly synchronous primary confirms nothing.

A human operator would run `patronictl reinit`. This one does the same through the agents' API.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from loadtest.faults.hosts import Host, Hosts
from loadtest.faults.postgres_hosts import Agents

log = logging.getLogger(__name__)

LOOK = 2.0
"""Seconds between two looks."""

STILL = 30.0
"""Seconds without replication until a standby is rebuilt: longer than a promotion takes, than a
rewind, and than the lease of a primary that has lost its standbys."""

MAX_TIMES = 3
"""How often the same standby is rebuilt; one that needs it more often has another problem."""


class Operator:
    """Watches the standbys of a bed and rebuilds the ones that stand still.

    Attributes:
        done: what it did, in sentences.
    """

    def __init__(self, hosts: Hosts) -> None:
        self.done: list[str] = []
        self._agents = Agents(hosts)
        self._since: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def look(self) -> None:
        """Look at all standbys once; intervene where one has been standing still for too long."""
        idle = self._idle()
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in idle}
        late = [name for name, since in self._since.items() if now - since >= STILL]
        for name in late:
            if self._times[name] < MAX_TIMES:
                self._rebuild(self._agents.hosts[name])

    def _idle(self) -> list[str]:
        """Return the standbys that receive nothing although there is a primary."""
        primaries = self._agents.primaries()
        if len(primaries) != 1:
            return []
        [primary] = primaries
        served = {primary.name, *self._agents.streaming(primary)}
        others = [each for each in self._agents.hosts.values() if each.name not in served]
        # A host that does not answer is switched off or cut off.
        return [each.name for each in others if self._agents.ask(each, "/patroni")[0]]

    def _rebuild(self, host: Host) -> None:
        # Without `force`: the agent refuses while it rewinds or copies, and without a leader.
        status, _ = self._agents.ask(host, "/reinitialize", {"force": False})
        if status != 200:
            return
        self._times[host.name] += 1
        del self._since[host.name]
        text = f"{host.name} received nothing for {STILL:g} s and was rebuilt"
        self.done.append(text)
        log.warning("%s", text)


@contextmanager
def on_duty(hosts: Hosts) -> Iterator[Operator]:
    """Let an operator watch a bed from a thread of its own."""
    operator, end = Operator(hosts), threading.Event()

    def watch() -> None:
        while not end.wait(LOOK):
            operator.look()

    threading.Thread(target=watch, name="operator", daemon=True).start()
    try:
        yield operator
    finally:
        end.set()  # without waiting for agents that do not answer
