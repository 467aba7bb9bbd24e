"""Hosts of a test bed: network namespaces on one machine, and what their faults share.

A packet that is to vanish is dropped where it arrives, so that its sender learns nothing, as on a
cut cable. A dead host loses its link before its processes: a machine without power resets no
connection.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar

import msgspec
import psutil

from loadtest.fault_needs import BED
from loadtest.faults.fault import Fault, FaultFailed, Target, lives, send, wait_until

SWITCH = "switch"
"""The namespace with the bridge that joins the hosts."""

PORT = "eth0"
"""A host's only link; its other end, on the bridge, has the host's name."""

SLOW = ("tbf", "rate", "64kbit", "burst", "4kb", "latency", "1s")
"""What tc makes of a slow link: what would wait for longer than a second is dropped."""

DROP = """
table ip cut {
  set senders { type ipv4_addr; }
  chain arriving { type filter hook input priority 0; policy accept; ip saddr @senders drop; }
}
"""
"""In each host: packets of these senders vanish."""


def ip(*words: str, check: bool = True) -> str:
    """Run iproute2; raise `FaultFailed` with its message."""
    return _run(["ip", *words], check=check)


def _run(command: list[str], *, check: bool = True, given: str = "") -> str:
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except OSError as error:
        raise FaultFailed(f"{command[0]} cannot be run: {error}") from error
    if check and done.returncode:
        raise FaultFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Server:
    """A process that runs on a host from its start on.

    Attributes:
        name: of its log.
        command: without a shell.
        environment: all variables.
        log: file for its output.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    log: str


@dataclass(slots=True)
class Host:
    """One host.

    Attributes:
        name: in the bed.
        namespace: its network namespace.
        address: on the bed's network.
        servers: what starts when it is switched on.
        clock: file that libfaketime reads in its processes; empty: they use the machine's clock.
        disk: folder of its own small file system; empty: none.
    """

    name: str
    namespace: str
    address: str
    servers: list[Server] = field(default_factory=list)
    clock: str = ""
    disk: str = ""

    @property
    def inside(self) -> list[str]:
        """The words that run a command on this host."""
        return ["ip", "netns", "exec", self.namespace]

    def run(self, *command: str, given: str = "", check: bool = True) -> str:
        """Run a command there and return its output."""
        return _run([*self.inside, *command], given=given, check=check)

    def processes(self) -> list[psutil.Process]:
        """Return the live processes on it, except this one."""
        found = []
        for pid in ip("netns", "pids", self.namespace, check=False).split():
            try:
                process = psutil.Process(int(pid))
            except psutil.NoSuchProcess:
                continue
            if process.pid != os.getpid() and lives(process):
                found.append(process)
        return found

    def start(self, server: Server) -> None:
        """Start a server, which outlives this process."""
        with Path(server.log).open("a") as log:
            # A child of process 1, so that it can be killed and started by different processes.
            subprocess.run(
                ["setsid", "--fork", *self.inside, *server.command],
                env=server.environment,
                cwd=Path(server.log).parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=True,
            )

    def kill(self) -> list[int]:
        """Kill all its processes, also those that start meanwhile; return the pids."""
        killed: list[int] = []

        def is_empty() -> bool:
            alive = self.processes()
            killed.extend(each.pid for each in alive if send(each.pid, signal.SIGKILL))
            return not alive

        wait_until(f"the processes of {self.name} end", is_empty, 20)
        return sorted(set(killed))


@dataclass(slots=True)
class Hosts:
    """The hosts of a bed; can be stored in a file for another process."""

    switch: str
    hosts: dict[str, Host]

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def with_role(self, role: str) -> list[Host]:
        """Return the hosts named by a role and a number, such as web1 and web2."""
        return [each for each in self.hosts.values() if each.name.rstrip("0123456789") == role]

    def kill(self) -> None:
        """Kill all processes on all hosts, except this one."""
        for each in self.hosts.values():
            each.kill()

    # --- what may happen to them ---------------------------------------------------------------

    def power_off(self, name: str) -> list[int]:
        """Let a host die: its link first, then its processes; return their pids."""
        ip("-n", self.switch, "link", "set", name, "down")
        return self[name].kill()

    def power_on(self, name: str) -> None:
        """Switch a dead host on again, with its old data."""
        ip("-n", self.switch, "link", "set", name, "up")
        for server in self[name].servers:
            self[name].start(server)

    def cut(self, sender: str, *receivers: str) -> None:
        """Let the packets of one host to these others vanish; the way back stays open."""
        rule = f"add element ip cut senders {{ {self[sender].address} }}\n"
        for each in receivers:
            self[each].run("nft", "-f", "-", given=rule)

    def separate(self, side: Iterable[str], other: Iterable[str]) -> None:
        """Let all packets between these two groups of hosts vanish."""
        others = list(other)
        for each in side:
            self.cut(each, *others)
            for another in others:
                self.cut(another, each)

    def isolate(self, name: str) -> None:
        """Cut a host off from all others, in both directions."""
        self.separate([name], [each for each in self.hosts if each != name])

    def slow_down(self, name: str) -> None:
        """Let a host's link carry 8 kB a second in each direction."""
        for end in self._ends(self[name]):
            _run([*end, "root", *SLOW])

    def reconnect(self) -> None:
        """Undo all cuts, and let links be fast again."""
        for host in self.hosts.values():
            host.run("nft", "flush", "set", "ip", "cut", "senders")
            for end in self._ends(host, "del"):
                _run([*end, "root"], check=False)  # most links are not slow

    def _ends(self, host: Host, verb: str = "add") -> list[list[str]]:
        """The words by which tc changes how both ends of a host's link send."""
        here = ["tc", "-n", host.namespace, "qdisc", verb, "dev", PORT]
        there = ["tc", "-n", self.switch, "qdisc", verb, "dev", host.name]
        return [here, there]

    def step_clock(self, name: str, seconds: float) -> None:
        """Set the clock of a host's processes ahead of the machine's, or behind it."""
        if not self[name].clock:
            raise FaultFailed(f"the processes of {name} run on the machine's clock")
        Path(self[name].clock).write_text(f"{seconds:+g}\n")

    # --- its file ------------------------------------------------------------------------------

    def write(self, path: Path) -> None:
        """Write it as JSON, readable by this user only: environments contain passwords."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: str) -> Hosts:
        """Read the file that `write` wrote."""
        if not path:
            raise FaultFailed("this shop does not run on a test bed")
        return msgspec.json.decode(Path(path).read_bytes(), type=cls)


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
