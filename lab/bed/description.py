"""The description of a bed: which hosts there are and what runs on each (`beds.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("beds.toml")

NETWORK = IPv4Network("10.77.0.0/24")
"""The same for each bed: a bed's bridge is in a namespace of its own."""

FIRST = 10
"""Number of the first host's address."""

LONGEST = 15
"""Characters of a link's name in Linux; the bridge's end of a link has its host's name."""

SHOP = "shop"
"""The host with the load, the audit, the front, and the shop's processes except its web nodes."""


@dataclass(frozen=True, slots=True)
class Description:
    """A bed before it is started.

    Attributes:
        name: of the bed and its file.
        about: what it consists of, in one line.
        hosts: the servers of each host, in the order in which they start.
        faults: those that it was made for.
        options: of its servers.
    """

    name: str
    about: str
    hosts: dict[str, list[str]]
    faults: list[str]
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if SHOP not in self.hosts:
            raise ValueError(f"{self.name}: no host is called {SHOP}")
        for host in self.hosts:
            if not host.isalnum() or not host.islower() or len(host) > LONGEST:
                raise ValueError(f"{self.name}: {host!r} is no name of a host")
        if FIRST + len(self.hosts) >= NETWORK.num_addresses:
            raise ValueError(f"{self.name}: too many hosts for {NETWORK}")

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
