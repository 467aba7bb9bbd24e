"""What faults act on: everything that an injector must know about a running shop."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

REDIS_PROXY = "a proxy before Redis"
DATABASE_PROXY = "a proxy before PostgreSQL"
FAILPOINTS = "failpoints in the shop"
CLOCK = "libfaketime (Debian's package faketime)"
DISK = "a small file system under PostgreSQL (a tmpfs, which needs root)"


@dataclass(frozen=True, slots=True)
class Target:
    """A running shop, seen by those who break it. Serves as a file too, for another process.

    Attributes:
        web: the shop's address.
        sale: id of the sale that is going on.
        shop: pid of the supervisor that starts web, Celery and mail server again when they die.
        web_word: a word of the command line of the web processes' master, and of no other's.
        mail_word: likewise of the mail server.
        database: URL of PostgreSQL itself, past any proxy; its supervisor starts it again.
        database_folder: its data directory, on this machine.
        redis: URL of Redis itself, past any proxy; its supervisor starts it again.
        broker: URL of Celery's broker.
        redis_proxy: control port of the proxy between the shop and Redis; 0: there is none.
        database_proxy: likewise for PostgreSQL.
        failpoints: folder of the orders for failpoints; empty: the shop has none.
        clock: file that libfaketime reads in the web processes; empty: their clock is the system's.
        disk: folder on the small file system that the database lives on; empty: it does not.
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

    def has(self) -> frozenset[str]:
        """What is there of the things that some faults need."""
        there = {
            REDIS_PROXY: self.redis_proxy,
            DATABASE_PROXY: self.database_proxy,
            FAILPOINTS: self.failpoints,
            CLOCK: self.clock,
            DISK: self.disk,
        }
        return frozenset(name for name, value in there.items() if value)

    def write(self, path: Path) -> None:
        """Write it as JSON; it holds passwords, so for this user only."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Target:
        """Read what `write` has written."""
        return cls(**json.loads(path.read_text()))
