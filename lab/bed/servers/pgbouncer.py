"""PgBouncer in transaction mode, between the shop and HAProxy on the same host."""

from __future__ import annotations

import shutil

from development import postgres
from development.folder import write_private
from lab.bed.servers import patroni
from lab.bed.servers.server import Place
from loadtest.faults.hosts import Host

PORT = 6432

CONFIGURATION = """\
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


def pgbouncer(place: Place, host: Host) -> None:
    """Set PgBouncer up, which refuses to run as root."""
    folder = place.disk(host)
    postgres.let_pass(folder)
    users, configuration = folder / "users.txt", folder / "pgbouncer.ini"
    write_private(users, f'"{patroni.USER}" "{patroni.password(place)}"\n')
    write_private(
        configuration, CONFIGURATION.format(database=patroni.PORT, port=PORT, users=users)
    )
    for each in (users, configuration):
        shutil.chown(each, patroni.OWNER, patroni.OWNER)
    place.add(host, "pgbouncer", [*patroni.as_owner(), "pgbouncer", str(configuration)])


def url(place: Place) -> str:
    """Return the URL of the shop's database, through PgBouncer.

    Without `target_session_attrs`: PgBouncer answers that question from its first connection.
    """
    own, _, _ = patroni.url(place).partition("?")
    return own.replace(f":{patroni.PORT}/", f":{PORT}/")
