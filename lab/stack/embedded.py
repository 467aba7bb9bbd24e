"""PostgreSQL and Valkey from wheels, shared by every command that uses the same folder.

Who uses them is counted by the kernel: each process holds a shared lock on a file for as long as
it lives, and the one that can turn it into an exclusive lock was the last and stops the servers. A
process that is killed frees its lock as well, so the count is never wrong.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from lab import environment
from lab.stack import leftovers, postgres, valkey
from lab.stack.folder import alone, exclusive, make_folder, taken, write_private
from lab.stack.ports import claim, next_free, release
from lab.stack.private import private_folder
from lab.stack.signals import shielded
from lab.stack.small_disk import small_disk
from lab.stack.supervisor import Supervisor
from lab.stack.system_errors import ROOM_FOR_NEW, refuse_unusable

READY_SECONDS = 60  # PostgreSQL may have to recover from a crash first


@dataclass(frozen=True)
class ServerUrls:
    """Where the servers are: what the environment variables of the same names expect.

    `psp` is the payment provider's database; without it the provider takes one beside the shop's.
    """

    database: str
    redis: str
    broker: str
    psp: str = ""

    def as_environment(self) -> dict[str, str]:
        """Return them under the names of their environment variables."""
        own = {"PSP_DATABASE_URL": self.psp} if self.psp else {}
        return {
            "DATABASE_URL": self.database,
            "REDIS_URL": self.redis,
            "CELERY_BROKER_URL": self.broker,
            **own,
        }


class EmbeddedServers:
    """The servers of one folder: the first to attach starts them, the last to detach stops them."""

    def __init__(self, folder: Path, *, disk: Path | None = None) -> None:
        self.folder = make_folder(folder.resolve())
        self.disk = disk  # a file system of its own for the database's tables, or none
        self.supervisor = Supervisor(self.folder)
        self._in_use: IO[str] | None = None
        self._owner = 0
        self._claimed: tuple[int, ...] = ()

    def attach(self) -> ServerUrls:
        """Use the servers until `detach()` or the end of this process.

        Raises:
            StackError: they do not come up.
        """
        try:
            with exclusive(self.folder / "start.lock"):
                self._in_use = (self.folder / "in-use.lock").open("a")
                self._owner = os.getpid()
                fcntl.flock(self._in_use, fcntl.LOCK_SH)
                atexit.register(self.detach)
                self._bring_up()
        except BaseException:  # also Ctrl-C: what was started is stopped again
            self.detach()
            raise
        return self.urls

    def detach(self) -> None:
        """Stop using the servers, and stop them if nobody else does."""
        if self._in_use is None or self._owner != os.getpid():  # a forked child owns nothing
            return
        with shielded(), exclusive(self.folder / "start.lock"), self._in_use as in_use:
            self._in_use = None
            if taken(in_use):
                self.supervisor.stop()
            release(*self._claimed)
        atexit.unregister(self.detach)

    @contextmanager
    def unused(self) -> Iterator[bool]:
        """Keep new users away meanwhile; yield whether nobody used the servers (then stopped)."""
        with exclusive(self.folder / "start.lock"), alone(self.folder / "in-use.lock") as free:
            if free:
                self.supervisor.stop()
            yield free

    @property
    def urls(self) -> ServerUrls:
        """Where the servers are, once they were started."""
        ports = self._ports()
        return ServerUrls(
            database=postgres.url(self.folder, ports["postgres"]),
            redis=valkey.url(self.folder, ports["valkey"], valkey.LOCKS),
            broker=valkey.url(self.folder, ports["valkey"], valkey.BROKER),
            psp=postgres.url(self.folder, ports["postgres"], postgres.PSP_DATABASE),
        )

    def _bring_up(self) -> None:
        if not self.supervisor.is_running():
            leftovers.stop(self.folder)  # first, since they hold the ports
            ports = {
                name: port if claim(port) else next_free(port)
                for name, port in self._ports().items()
            }
            # Kept while they run: a server that is killed and comes back finds its port free.
            self._claimed = tuple(ports.values())
            write_private(self.folder / "ports.json", json.dumps(ports))
            programs = [
                postgres.program(self.folder, ports["postgres"], self.disk),
                valkey.program(self.folder, ports["valkey"]),
            ]
            self.supervisor.start(programs, os.environ)
        ports = self._ports()
        for server in (valkey, postgres):
            name = server.__name__.rpartition(".")[2]
            ready = partial(server.answers, self.folder, ports[name])
            self.supervisor.wait_until(name, ready, READY_SECONDS)
        postgres.create_databases(self.folder, ports["postgres"])

    def _ports(self) -> dict[str, int]:
        path = self.folder / "ports.json"
        if not path.exists():
            return {"postgres": postgres.DEFAULT_PORT, "valkey": valkey.DEFAULT_PORT}
        ports: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        return ports


@contextmanager
def private_servers(*, with_small_disk: bool = False) -> Iterator[EmbeddedServers]:
    """Yield fresh servers of one's own, for tests and proofs; afterwards their data is deleted.

    Args:
        with_small_disk: give the database a small disk of its own, where that can be done.

    Raises:
        StackError: they do not come up.
    """
    refuse_unusable(environment.data_folder(), room=ROOM_FOR_NEW)
    with private_folder() as folder, ExitStack() as cleanup:
        disk = None
        if with_small_disk:
            disk = cleanup.enter_context(small_disk(make_folder(folder / "disk")))
        servers = EmbeddedServers(folder / "servers", disk=disk)
        servers.attach()
        try:
            yield servers
        finally:
            servers.detach()
