"""The description of a bed (`beds.toml`): which hosts there are, what runs on each, and where."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from shutil import which
from typing import Any

from development import StackError
from development.folder import make_folder
from lab.stack.proxies import under_clock
from loadtest.faults.hosts import Host, Hosts, Server

FILE = Path(__file__).with_name("beds.toml")

NETWORK = IPv4Network("10.77.0.0/24")
"""The same for each bed: a bed's bridge is in a namespace of its own."""

FIRST = 10
"""Number of the first host's address."""

SHOP = "shop"
"""The host with the load, the audit, the front, and the shop's processes except its web nodes."""


@dataclass(frozen=True, slots=True)
class Description:
    """A bed before it is started.

    Attributes:
        name: of the bed and its file.
        hosts: the servers of each host, in the order in which they start.
        faults: those that it was made for.
        options: of its servers.
    """

    name: str
    hosts: dict[str, list[str]]
    faults: list[str]
    options: dict[str, Any] = field(default_factory=dict)

    def address(self, host: str) -> str:
        """Return a host's address."""
        return str(IPv4Address(int(NETWORK[FIRST]) + list(self.hosts).index(host)))

    def hosts_of(self, server: str) -> list[str]:
        """Return the names of the hosts on which this server runs."""
        return [name for name, servers in self.hosts.items() if server in servers]


def names() -> list[str]:
    """Return the names of all beds."""
    return sorted(tomllib.loads(FILE.read_text()))


def read(name: str) -> Description:
    """Return the description of a bed. Raises ValueError: it is not one."""
    try:
        table = tomllib.loads(FILE.read_text())[name]
        return Description(**{**table, "name": name, "hosts": _numbered(table["hosts"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"{name}: {error}") from error


def _numbered(groups: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return single hosts: `web*2` stands for `web1` and `web2`."""
    hosts: dict[str, list[str]] = {}
    for group, servers in groups.items():
        name, _, count = group.partition("*")
        numbers = range(1, int(count) + 1) if count else [""]
        hosts |= {f"{name}{number}": servers for number in numbers}
    return hosts


@dataclass(frozen=True, slots=True)
class Place:
    """Where servers are set up.

    Attributes:
        description: of the bed.
        hosts: of the bed, which exist.
        folder: of the bed; each host keeps its files below it, as on a disk of its own.
        environment: variables of every server.
    """

    description: Description
    hosts: Hosts
    folder: Path
    environment: Mapping[str, str]

    def disk(self, host: Host) -> Path:
        """Return the folder of a host's files."""
        return make_folder(self.folder / host.name)

    def clock_of(self, host: Host) -> dict[str, str]:
        """Return the variables of a process on a host, as far as its clock is concerned."""
        return under_clock(Path(host.clock)) if host.clock else {}

    def add(
        self,
        host: Host,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> Server:
        """Set a server up on a host: it starts with the host, on the machine's clock."""
        server = Server(
            name,
            [program(command[0]), *command[1:]],
            {**self.environment, **(environment or {})},
            str(self.disk(host) / f"{name}.log"),
        )
        host.servers.append(server)
        return server

    def addresses(self, server: str) -> list[str]:
        """Return the addresses of the hosts that run this server."""
        return [self.hosts[name].address for name in self.description.hosts_of(server)]


def program(name: str) -> str:
    """Return the path of a program. Raises StackError: it is not installed."""
    folders = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    found = which(name, path=folders)
    if found is None:
        raise StackError(f"{name} is not installed; .ci/install-servers installs it.")
    return found


def log_tail(server: Server, lines: int = 10) -> str:
    """Return the last lines that a server printed."""
    path = Path(server.log)
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
