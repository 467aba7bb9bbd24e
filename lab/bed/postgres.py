"""PostgreSQL under Patroni, etcd on hosts of its own, HAProxy and PgBouncer before the primary.

An agent of Patroni 3.0 may read etcd from one member alone, and it takes the leader's key without
a comparison once its lease has ended. With a member on its own host, a primary that is cut off goes
on reading there that it is the leader, and when it is back it takes the key from its successor:
orders that the successor has confirmed are lost, and both have written the same timeline.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from development import StackError, postgres
from development.folder import kept_secret, make_folder, write_private
from lab.bed.description import Place, program
from lab.bed.fronts import database_front
from loadtest.faults.hosts import Host
from loadtest.faults.postgres_hosts import API_PORT, Agents

PORT, BOUNCER_PORT = 5432, 6432
CLIENTS, PEERS = 2379, 2380
"""Ports of etcd."""

USER = DATABASE = "shop"
OWNER = "postgres"
"""The system user of Debian's packages; PostgreSQL refuses to run as root."""

FOLDER = "postgres"
"""On a host's disk; a file system of its own where one can be mounted."""

TTL, LOOP, RETRY = 10, 2, 3
"""Seconds: until a silent primary's lease ends; between two looks of an agent; and for which it
asks etcd again. The lease must outlast a look and two attempts, hence TTL >= LOOP + 2 * RETRY."""

SETTINGS = {
    "max_connections": 200,
    "shared_buffers": "64MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "jit": "off",
    "timezone": "UTC",
    "unix_socket_directories": "",
    # A standby that is gone is noticed as fast as a primary.
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_receiver_status_interval": "1s",
    "wal_keep_size": "256MB",
    "tcp_keepalives_idle": 2,
    "tcp_keepalives_interval": 1,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": "5s",
}

BOUNCER = """\
[databases]
* = host=127.0.0.1 port={database}
[pgbouncer]
listen_addr = *
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 60
; The account has its time-outs from ALTER ROLE: a pooled session belongs to all clients.
ignore_startup_parameters = options
; A buyer waits no longer for a session, and a primary that is new is tried at once.
query_wait_timeout = 5
server_login_retry = 1
server_connect_timeout = 3
tcp_user_timeout = 3000
tcp_keepidle = 2
tcp_keepintvl = 1
tcp_keepcnt = 3
"""


def etcd(place: Place, host: Host) -> None:
    """Set up a member of etcd."""
    members = {name: place.hosts[name].address for name in place.description.hosts_of("etcd")}
    clients, peers = (f"http://{host.address}:{port}" for port in (CLIENTS, PEERS))
    command = [
        *("etcd", "--name", host.name, "--data-dir", str(place.disk(host) / "etcd")),
        *("--listen-client-urls", clients, "--advertise-client-urls", clients),
        *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
        "--initial-cluster",
        ",".join(f"{name}=http://{address}:{PEERS}" for name, address in members.items()),
        # Three times the defaults: no fault concerns etcd, and on a busy machine an election would
        # make Patroni's primary step down.
        *("--heartbeat-interval", "300", "--election-timeout", "3000", "--log-level", "error"),
    ]
    place.add(host, "etcd", command)


def patroni(place: Place, host: Host) -> None:
    """Set up a PostgreSQL and its agent; the first agent to get etcd's key creates the database."""
    folder = make_folder(place.disk(host) / FOLDER)
    shutil.chown(folder, OWNER, OWNER)
    postgres.let_pass(folder)
    configuration = folder / "patroni.json"  # JSON is YAML
    write_private(configuration, json.dumps(_configuration(place, host, folder)))
    shutil.chown(configuration, OWNER, OWNER)
    home = {"HOME": str(folder), "PGPASSFILE": str(folder / "pgpass")}
    place.add(host, "patroni", [*as_owner(), program("patroni"), str(configuration)], home)


def as_owner() -> list[str]:
    """Return the words that run a command as the system user of PostgreSQL."""
    return ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]


def _configuration(place: Place, host: Host, folder: Path) -> dict[str, Any]:
    etcds = [f"{address}:{CLIENTS}" for address in place.addresses("etcd")]
    secret = password(place)
    return {
        "scope": "shop",
        "name": host.name,
        "restapi": {
            "listen": f"{host.address}:{API_PORT}",
            "connect_address": f"{host.address}:{API_PORT}",
        },
        "etcd3": {"hosts": etcds},
        "bootstrap": {
            "dcs": {
                "ttl": TTL,
                "loop_wait": LOOP,
                "retry_timeout": RETRY,
                "synchronous_mode": bool(place.description.options["synchronous"]),
                # Else a new primary confirms alone until a standby follows it. If the old one then
                # gets the lease back, these commits are lost.
                "synchronous_mode_strict": bool(place.description.options["synchronous"]),
                "postgresql": {
                    "use_pg_rewind": True,
                    # A primary that diverged and cannot be rewound is rebuilt from the new one.
                    "remove_data_directory_on_rewind_failure": True,
                    "remove_data_directory_on_diverged_timelines": True,
                    "parameters": SETTINGS,
                },
            },
            "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
        },
        "postgresql": {
            "listen": f"{host.address}:{PORT}",
            "connect_address": f"{host.address}:{PORT}",
            "data_dir": str(folder / "data"),
            "bin_dir": str(_programs()),
            "pgpass": str(folder / "pgpass"),
            # A standby is copied at once; otherwise the copy waits for minutes for a checkpoint.
            "basebackup": {"checkpoint": "fast"},
            "authentication": {
                "superuser": {"username": USER, "password": secret},
                "replication": {"username": "replicator", "password": secret},
            },
            "pg_hba": [
                "host replication replicator all scram-sha-256",
                "host all all all scram-sha-256",
            ],
        },
        "log": {"level": "INFO"},
    }


def front(place: Place, host: Host) -> None:
    """Set up HAProxy, which asks each agent whether its server is the primary."""
    servers = {
        name: f"{place.hosts[name].address}:{PORT}"
        for name in place.description.hosts_of("patroni")
    }
    database_front(place, host, PORT, servers, API_PORT)


def url(place: Place, database: str = DATABASE) -> str:
    """Return the URL of the primary, through HAProxy.

    HAProxy notices after up to 1.5 s that a primary has become a standby. Until then that server
    shows commits which no other has and which it is about to lose, so the client refuses standbys.
    """
    [address] = place.addresses("database-front")
    only_primary = "target_session_attrs=read-write"
    return f"postgresql://{USER}:{password(place)}@{address}:{PORT}/{database}?{only_primary}"


def ready(place: Place) -> bool:
    """Whether all servers follow a primary that can be reached; creates the shop's database."""
    if Agents(place.hosts).unsettled():
        return False
    with (
        suppress(psycopg.OperationalError),
        psycopg.connect(url(place, "postgres"), autocommit=True, connect_timeout=2) as connection,
    ):
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if known.fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
            # As the shop's connections set them, which PgBouncer does not pass on.
            connection.execute(f"ALTER ROLE {USER} SET idle_in_transaction_session_timeout = '15s'")
            connection.execute(f"ALTER ROLE {USER} SET lock_timeout = '10s'")
        return True
    return False


def _programs() -> Path:
    """Return the folder of Debian's newest PostgreSQL, which are not on the PATH."""
    found = list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise StackError("Debian's PostgreSQL is not installed; .ci/install-servers installs it.")
    return max(found, key=lambda path: int(path.parts[4])).parent


def password(place: Place) -> str:
    """Return the password of the database's accounts."""
    return kept_secret("postgres-password", place.folder)


def pgbouncer(place: Place, host: Host) -> None:
    """Set PgBouncer up, which refuses to run as root."""
    folder = place.disk(host)
    postgres.let_pass(folder)
    users, configuration = folder / "users.txt", folder / "pgbouncer.ini"
    write_private(users, f'"{USER}" "{password(place)}"\n')
    write_private(configuration, BOUNCER.format(database=PORT, port=BOUNCER_PORT, users=users))
    for each in (users, configuration):
        shutil.chown(each, OWNER, OWNER)
    place.add(host, "pgbouncer", [*as_owner(), "pgbouncer", str(configuration)])


def bouncer_url(place: Place) -> str:
    """Return the URL of the shop's database, through PgBouncer.

    Without `target_session_attrs`: PgBouncer answers that question from its first connection.
    """
    own, _, _ = url(place).partition("?")
    return own.replace(f":{PORT}/", f":{BOUNCER_PORT}/")
