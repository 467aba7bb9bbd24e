"""An embedded PostgreSQL with archived WAL: its base backup, its end, its restore to a point.

The commands are those of docs/backup.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import psycopg

from development import postgres
from development.embedded import EmbeddedServers
from development.folder import make_folder
from shop.tests.processes import wait_for

ACCOUNT = postgres.SYSTEM_USER if os.geteuid() == 0 else None


class Archived:
    """The database server of `servers`, restarted with an archive in `folder`."""

    def __init__(self, servers: EmbeddedServers, folder: Path) -> None:
        self.servers = servers
        self.data = postgres.data_folder(servers.folder)
        self.archive, self.base = self._own(folder / "archive"), self._own(folder / "base")
        self.sql("ALTER SYSTEM SET archive_mode = on")
        copy = f"test ! -f {self.archive}/%f && cp %p {self.archive}/%f"
        self.sql(f"ALTER SYSTEM SET archive_command = '{copy}'")
        self.stop()
        self.start()

    def back_up(self) -> None:
        """Take a base backup of the running server."""
        words = ["--pgdata", self.base, "--checkpoint=fast", "--wal-method=stream"]
        words += ["--dbname", self.servers.urls.database.rpartition("/")[0] + "/postgres"]
        self._run(postgres.programs() / "pg_basebackup", *words)
        self._run(postgres.programs() / "pg_verifybackup", "--quiet", self.base)

    def name_point(self, name: str) -> None:
        """Name this moment, and archive the WAL up to it."""
        self.sql(f"SELECT pg_create_restore_point('{name}')")

    def archive_all(self) -> None:
        """Return when all WAL so far is in the archive."""
        [(last,)] = self.sql("SELECT pg_walfile_name(pg_switch_wal())")
        wait_for((self.archive / str(last)).exists, 60)

    def destroy(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self.data)

    def restore(self, point: str) -> None:
        """Start from the base backup and replay the archive up to `point`."""
        shutil.copytree(self.base, self.data)
        self.data.chmod(0o700)  # or the server refuses to start
        (self.data / "recovery.signal").touch()
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(
                f"restore_command = 'cp {self.archive}/%f %p'\n"
                f"recovery_target_name = '{point}'\n"
                "recovery_target_action = 'promote'\n"
            )
        self._hand_over(self.data, *self.data.rglob("*"))
        self.start()
        wait_for(lambda: self.sql("SELECT pg_is_in_recovery()") == [(False,)], 120)

    def start(self) -> None:
        """Start the server; return when it answers."""
        supervisor, folder = self.servers.supervisor, self.servers.folder
        supervisor.start_program("postgres")
        port = psycopg.conninfo.conninfo_to_dict(self.servers.urls.database)["port"]
        supervisor.wait_until("postgres", partial(postgres.answers, folder, int(port or 0)), 120)

    def stop(self) -> None:
        """Stop the server."""
        self.servers.supervisor.stop_program("postgres")

    def sql(self, query: str) -> list[tuple[object, ...]]:
        """Return a query's rows, none for a statement without."""
        with psycopg.connect(self.servers.urls.database, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def _own(self, folder: Path) -> Path:
        make_folder(folder)
        self._hand_over(folder)
        return folder

    def _hand_over(self, *paths: Path) -> None:
        for path in paths:
            if ACCOUNT:
                shutil.chown(path, ACCOUNT, ACCOUNT)

    def _run(self, *words: object) -> None:
        subprocess.run(
            [str(word) for word in words],
            user=ACCOUNT,
            group=ACCOUNT,
            cwd=self.base,
            check=True,
            timeout=120,
        )
