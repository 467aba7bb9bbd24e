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
from pathlib import Path
from typing import IO, Self

from development import leftovers
from development.files import write_private
from development.folder import (
    alone,
    data_folder,
    exclusive,
    kept_secret,
    make_folder,
    taken,
)
from development.leftovers import private_folder
from development.ports import claim, next_free, release
from development.servers import Postgres, Valkey
from development.signals import shielded
from development.supervisor import Program, Supervisor
from development.system_errors import ROOM_FOR_NEW, refuse_unusable
from shop import environment

Disk = Callable[[Path], AbstractContextManager[Path | None]]

READY_SECONDS = 60  # PostgreSQL may have to recover from a crash first

PORTS = {"postgres": 15432, "valkey": 16379}
"""Below those that systems give to clients, which may take any of them."""

DATABASE = "shop"

LOCKS, BROKER = 0, 1
"""Databases of Valkey."""


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
        valkey = self.valkey
        return ServerUrls(self.postgres.url(DATABASE), valkey.url(LOCKS), valkey.url(BROKER))

    @property
    def postgres(self) -> Postgres:
        """PostgreSQL, which the supervisor keeps alive."""
        return Postgres(
            self.folder,
            self._ports()["postgres"],
            kept_secret("postgres-password", self.folder),
            self.disk,
            durable=self.durable,
        )

    @property
    def valkey(self) -> Valkey:
        """Valkey, likewise."""
        password = kept_secret("valkey-password", self.folder)
        return Valkey(self.folder, self._ports()["valkey"], password)

    def _bring_up(self) -> None:
        if not self.supervisor.is_running():
            leftovers.stop(self.folder)  # first, because they hold the ports
            # Claimed while they run, so that a killed server finds its port free when it restarts.
            ports = {
                name: port if claim(port) else next_free(port)
                for name, port in self._ports().items()
            }
            write_private(self.folder / "ports.json", json.dumps(ports))
            programs = [Program.of(server) for server in (self.postgres, self.valkey)]
            self.supervisor.start(programs, os.environ)
        for server in (self.valkey, self.postgres):
            self.supervisor.wait_until(server.name, server.answers, READY_SECONDS)
        self.postgres.create_database(DATABASE)

    def _ports(self) -> dict[str, int]:
        path = self.folder / "ports.json"
        if not path.exists():
            return PORTS
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
