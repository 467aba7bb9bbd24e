"""The target of faults: all that an injector must know about a running shop."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtest.fault_needs import CLOCK, DATABASE_PROXY, DISK, FAILPOINTS, REDIS_PROXY


@dataclass(frozen=True, slots=True)
class Target:
    """A running shop that faults act on; can be stored in a file for another process.

    Attributes:
        web: the shop's address.
        sale: id of the current sale.
        shop: pid of the supervisor that restarts web, Celery and mail processes.
        web_word: word on the command line of the web processes' master only.
        mail_word: word on the command line of the mail server only.
        database: URL of PostgreSQL itself, without a proxy; a supervisor restarts it.
        database_folder: its data directory, on this machine.
        redis: URL of Redis itself, without a proxy; a supervisor restarts it.
        broker: URL of Celery's broker.
        redis_proxy: control port of the proxy between the shop and Redis; 0: none.
        database_proxy: likewise for PostgreSQL.
        failpoints: folder for commands to failpoints; empty: the shop has none.
        clock: file that libfaketime reads in the web processes; empty: they use the system's clock.
        disk: folder of the database's small file system; empty: none.
        bed: file that describes the hosts (`Hosts`); empty: all is on this machine.
    """

    web: str
    shop: int
    database: str
    database_folder: str
    redis: str
    broker: str
    sale: int = 0
    web_word: str = "shop.wsgi"
    mail_word: str = "lab.mail_server"
    redis_proxy: int = 0
    database_proxy: int = 0
    failpoints: str = ""
    clock: str = ""
    disk: str = ""
    bed: str = ""

    def has(self) -> frozenset[str]:
        """Return the optional parts that exist."""
        there = {
            REDIS_PROXY: self.redis_proxy,
            DATABASE_PROXY: self.database_proxy,
            FAILPOINTS: self.failpoints,
            CLOCK: self.clock,
            DISK: self.disk,
        }
        return frozenset(name for name, value in there.items() if value)

    def write(self, path: Path) -> None:
        """Write it as JSON, readable by this user only because it contains passwords."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Target:
        """Read the file that `write` wrote."""
        return cls(**json.loads(path.read_text()))
