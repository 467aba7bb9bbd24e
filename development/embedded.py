"""PostgreSQL and Valkey from wheels, shared by all commands that use the same folder.

The kernel counts the users: each process holds a shared lock on a file while it lives. The process
that can convert its lock to an exclusive one is the last and stops the servers. Killed processes
free their locks too, so the count is always right.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Self

from development import leftovers, postgres, valkey
from development.folder import alone, data_folder, exclusive, make_folder, taken, write_private
from development.leftovers import private_folder
from development.ports import claim, next_free, release
from development.signals import shielded
from development.supervisor import Supervisor
from development.system_errors import ROOM_FOR_NEW, refuse_unusable
from shop import environment

Disk = Callable[[Path], AbstractContextManager[Path | None]]

READY_SECONDS = 60  # PostgreSQL may have to recover from a crash first


@dataclass(frozen=True)
class ServerUrls:
    """The servers' URLs, named after their environment variables."""

    database: str
    redis: str
    broker: str

    @classmethod
    def of_environment(cls) -> Self:
        """Return the servers that this process uses."""
        return cls(
            environment.text("DATABASE_URL"),
            environment.text("REDIS_URL"),
            environment.text("CELERY_BROKER_URL"),
        )

    def as_environment(self) -> dict[str, str]:
        """Return them by the names of their environment variables."""
        return {
            "DATABASE_URL": self.database,
            "REDIS_URL": self.redis,
            "CELERY_BROKER_URL": self.broker,
        }


class EmbeddedServers:
    """The servers of one folder: the first to attach starts them, the last to detach stops them."""

    def __init__(self, folder: Path, *, disk: Path | None = None, durable: bool = True) -> None:
        self.folder = make_folder(folder.resolve())
        self.disk = disk  # a separate file system for the database's tables
        self.durable = durable
        self.supervisor = Supervisor(self.folder)
        self._in_use: IO[str] | None = None
        self._owner = 0

    def attach(self) -> ServerUrls:
        """Use the servers until `detach()` or the end of this process.

        Raises:
            StackError: they do not start.
        """
        try:
            with exclusive(self.folder / "start.lock"):
                self._in_use = (self.folder / "in-use.lock").open("a")
                self._owner = os.getpid()
                fcntl.flock(self._in_use, fcntl.LOCK_SH)
                atexit.register(self.detach)
                self._bring_up()
        except BaseException:  # including Ctrl-C: stop what was started
            self.detach()
            raise
        return self.urls

    def detach(self) -> None:
        """Stop using the servers; stop them if no other process uses them."""
        if self._in_use is None or self._owner != os.getpid():  # a forked child does not own them
            return
        with shielded(), exclusive(self.folder / "start.lock"), self._in_use as in_use:
            self._in_use = None
            if taken(in_use):
                self.supervisor.stop()
            release(*self._ports().values())
        atexit.unregister(self.detach)

    @contextmanager
    def unused(self) -> Iterator[bool]:
        """Keep users out inside the block; yield whether the servers were unused (then stopped)."""
        with exclusive(self.folder / "start.lock"), alone(self.folder / "in-use.lock") as free:
            if free:
                self.supervisor.stop()
            yield free

    @property
    def urls(self) -> ServerUrls:
        """The servers' URLs, once they were started."""
        ports = self._ports()
        return ServerUrls(
            database=postgres.url(self.folder, ports["postgres"]),
            redis=valkey.url(self.folder, ports["valkey"], valkey.LOCKS),
            broker=valkey.url(self.folder, ports["valkey"], valkey.BROKER),
        )

    def _bring_up(self) -> None:
        if not self.supervisor.is_running():
            leftovers.stop(self.folder)  # first, because they hold the ports
            # Claimed while they run, so that a killed server finds its port free when it restarts.
            ports = {
                name: port if claim(port) else next_free(port)
                for name, port in self._ports().items()
            }
            write_private(self.folder / "ports.json", json.dumps(ports))
            programs = [
                postgres.program(self.folder, ports["postgres"], self.disk, durable=self.durable),
                valkey.program(self.folder, ports["valkey"]),
            ]
            self.supervisor.start(programs, os.environ)
        ports = self._ports()
        for server in (valkey, postgres):
            name = server.__name__.rpartition(".")[2]
            ready = partial(server.answers, self.folder, ports[name])
            self.supervisor.wait_until(name, ready, READY_SECONDS)
        postgres.create_database(self.folder, ports["postgres"])

    def _ports(self) -> dict[str, int]:
        path = self.folder / "ports.json"
        if not path.exists():
            return {"postgres": postgres.DEFAULT_PORT, "valkey": valkey.DEFAULT_PORT}
        ports: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        return ports


@contextmanager
def private_servers(*, disk: Disk | None = None, durable: bool = True) -> Iterator[EmbeddedServers]:
    """Yield fresh private servers for tests and proofs; delete their data afterwards.

    Args:
        disk: makes a separate disk for the database in a folder, or None if it cannot.
        durable: commits survive a crash of the machine, which tests need not wait for.

    Raises:
        StackError: they do not start.
    """
    refuse_unusable(data_folder(), room=ROOM_FOR_NEW)
    with private_folder() as folder, ExitStack() as cleanup:
        own = cleanup.enter_context(disk(make_folder(folder / "disk"))) if disk else None
        servers = EmbeddedServers(folder / "servers", disk=own, durable=durable)
        servers.attach()
        try:
            yield servers
        finally:
            servers.detach()
