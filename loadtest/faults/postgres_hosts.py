"""Faults of a bed with PostgreSQL under Patroni on several hosts."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from loadtest.fault_needs import DISK, PATRONI
from loadtest.faults.fault import FaultFailed, NotRecovered, Target
from loadtest.faults.hosts import Host, Hosts, LeaderFault
from loadtest.faults.machine import empty, fill

API_PORT = 8008
"""Of each agent's API, which HAProxy asks too."""

TIMEOUT = 1.0
"""Seconds to wait for an agent; its host may be cut off."""

SETTLED = 180
"""Seconds until every standby follows the primary. A former primary has to be rewound, and a
standby that stands still is rebuilt only after a while (`lab/bed/operator.py`)."""

MAX_LAG = 1 << 20
"""Bytes that a standby may be behind."""

POLL = 0.5
"""Seconds between two looks at the cluster, each of which asks several agents."""


class Agents:
    """The agents of a bed's PostgreSQL servers."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = {each.name: each for each in hosts.with_role("db")}

    def ask(self, host: Host, path: str, given: object = None) -> tuple[int, Any]:
        """Return status and body of an agent's answer; (0, {}) if there is none.

        Args:
            host: of the agent.
            path: of its API.
            given: body of a POST request; None: it is a GET request.
        """
        body = None if given is None else json.dumps(given).encode()
        url = f"http://{host.address}:{API_PORT}{path}"
        try:
            with urllib.request.urlopen(url, body, timeout=TIMEOUT) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else {}
        except urllib.error.HTTPError as error:
            return error.code, {}
        except (OSError, ValueError):
            return 0, {}

    def primaries(self) -> list[Host]:
        """Return the hosts whose agents say that their server is the primary."""
        return [host for host in self.hosts.values() if self.ask(host, "/primary")[0] == 200]

    def primary(self) -> Host:
        """Return the host of the primary. Raises `FaultFailed`: there is none, or several."""
        found = self.primaries()
        if len(found) != 1:
            raise FaultFailed(f"{len(found)} servers are primaries")
        return found[0]

    def roles(self, asked: Host) -> dict[str, str]:
        """Return the role of each server according to one agent."""
        members = self.ask(asked, "/cluster")[1].get("members", [])
        return {each["name"]: each["role"] for each in members}

    def streaming(self, primary: Host) -> set[str]:
        """Return the names of the standbys that receive the primary's log.

        The primary's server says so itself. An agent calls its standby "running" without a lag
        also when it receives nothing and nothing is written.
        """
        connected = self.ask(primary, "/patroni")[1].get("replication", [])
        return {each["application_name"] for each in connected if each["state"] == "streaming"}

    def unsettled(self) -> str:
        """Return why the cluster is not whole; empty if all standbys follow one primary."""
        found = self.primaries()
        if len(found) != 1:
            return f"{len(found)} servers are primaries"
        [primary] = found
        if still := sorted(set(self.hosts) - {primary.name} - self.streaming(primary)):
            return f"no log of {primary.name} reaches {' and '.join(still)}"
        members = self.ask(primary, "/cluster")[1].get("members", [])
        if len(members) != len(self.hosts) or len({each.get("timeline") for each in members}) != 1:
            return "the agents do not agree on the members and their timeline"
        lags = [each.get("lag", 0) for each in members if each["role"] != "leader"]
        if any(lag == "unknown" or lag > MAX_LAG for lag in lags):
            return f"the standbys are behind by {lags} bytes"
        status, configuration = self.ask(primary, "/config")
        synchronous = status == 200 and configuration.get("synchronous_mode")
        if synchronous and not any(each["role"] == "sync_standby" for each in members):
            return "no standby is synchronous"
        return ""

    def wait_until_settled(self, seconds: float = SETTLED) -> None:
        """Wait until the cluster is whole. Raises `NotRecovered` with the reason: it is not."""
        deadline = time.monotonic() + seconds
        while problem := self.unsettled():
            if time.monotonic() > deadline:
                raise NotRecovered(f"PostgreSQL is not whole after {seconds:g} s: {problem}")
            time.sleep(POLL)


class _OfPatroni(LeaderFault):
    """A fault of the PostgreSQL servers or of the way to them."""

    needs = frozenset({PATRONI})
    lasts = (1.0, 2.0)
    promotes = 60

    def leader(self) -> Host:
        self.agents = Agents(self.hosts)
        # Also after a fault of the web nodes: standbys can get lost on a busy machine alone.
        self.agents.wait_until_settled()
        primary = self.agents.primary()
        self.did["roles"] = self.agents.roles(primary)
        return primary

    def heir(self) -> Host | None:
        """Return another host whose agent says that its server is the primary."""
        others = [host for host in self.agents.primaries() if host.name != self.old.name]
        return others[0] if others else None

    def heal(self) -> None:
        """Join everything again, and wait until all servers follow one primary."""
        super().heal()
        self.agents.wait_until_settled()

    @classmethod
    def unsettled(cls, target: Target) -> str:
        return Agents(Hosts.read(target.bed)).unsettled()


class PostgresPrimaryLost(_OfPatroni):
    """The primary's host dies; Patroni promotes the synchronous standby."""

    name = "postgres-primary-lost"
    what = "the host of PostgreSQL's primary dies under load; Patroni promotes a standby"
    expected = "no confirmed order is lost; sales stop until the promotion"
    leaves_doubt = True


class PostgresPrimaryIsolated(_OfPatroni):
    """The primary lives, but no packet reaches it or leaves it."""

    name = "postgres-primary-isolated"
    what = "PostgreSQL's primary is cut off from all hosts, in both directions"
    expected = "no confirmed order is lost; it comes back as a standby"
    leaves_doubt = True

    def strike(self) -> None:  # noqa: D102
        self.hosts.isolate(self.old.name)


class PostgresPrimaryOneWay(_OfPatroni):
    """The primary gets every packet, and none of its own arrives."""

    name = "postgres-primary-one-way"
    what = "what PostgreSQL's primary sends vanishes; it still hears the others"
    expected = "commits without an answer are unknown; no confirmed order is lost"
    leaves_doubt = True

    def strike(self) -> None:  # noqa: D102
        self.hosts.cut(self.old.name, *(self.hosts.hosts.keys() - {self.old.name}))


class PostgresSplit(_OfPatroni):
    """The primary loses etcd and its standbys, while the shop still reaches it."""

    name = "postgres-split"
    what = "PostgreSQL's primary loses its standbys and etcd, but not the shop"
    expected = "it confirms nothing alone; no confirmed order is lost"
    wants_stock = True
    leaves_doubt = True

    def strike(self) -> None:  # noqa: D102
        etcd = {each.name for each in self.hosts.with_role("etcd")}
        self.hosts.separate([self.old.name], self.agents.hosts.keys() - {self.old.name} | etcd)


class PostgresPrimaryDiskFull(_OfPatroni):
    """The primary cannot write another page of its log, and stops; Patroni starts it or another."""

    name = "postgres-primary-disk-full"
    what = "the disk of PostgreSQL's primary is full"
    expected = "errors, no false ok; no confirmed order is lost"
    needs = frozenset({PATRONI, DISK})
    wants_stock = True
    lasts = (4.0, 6.0)
    promotes = 0

    def strike(self) -> None:  # noqa: D102
        self.lost()
        self.did |= fill(self.old.disk)

    def heal(self) -> None:  # noqa: D102
        empty(self.old.disk)
        super().heal()


class WebCutOffFromPostgres(_OfPatroni):
    """One web node loses the way to the database; the others keep it."""

    name = "web-cut-off-from-postgres"
    what = "packets between one web node and PostgreSQL vanish"
    expected = "the front takes it out; the others go on"
    lasts = (4.0, 8.0)
    leaves_doubt = True
    promotes = 0

    def strike(self) -> None:  # noqa: D102
        self.did["cut off"] = one = self.random.choice(self.hosts.with_role("web")).name
        self.hosts.separate([one], ["proxy"])
