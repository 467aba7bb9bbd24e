"""What a kind of server must tell the bed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from development.errors import StackError
from development.folder import make_folder
from lab.bed.description import Description
from loadtest.faults.hosts import Host, Hosts, Server


@dataclass(frozen=True, slots=True)
class Place:
    """Where servers are set up.

    Attributes:
        description: of the bed.
        hosts: of the bed, which exist.
        folder: of the bed; each host keeps its files below it, as on a disk of its own.
        environment: variables of every server.
        under_clock: gives the variables of a process whose clock a file steps; None: none can be.
    """

    description: Description
    hosts: Hosts
    folder: Path
    environment: Mapping[str, str]
    under_clock: Callable[[Path], dict[str, str]] | None = None

    def disk(self, host: Host) -> Path:
        """Return the folder of a host's files."""
        return make_folder(self.folder / host.name)

    def clock_of(self, host: Host) -> dict[str, str]:
        """Return the variables of a process on a host, as far as its clock is concerned."""
        return self.under_clock(Path(host.clock)) if host.clock and self.under_clock else {}

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
