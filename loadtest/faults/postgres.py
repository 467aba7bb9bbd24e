"""Faults of PostgreSQL: killed, restarted, sessions ended, connections exhausted, COMMITs lost."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from random import Random

import psutil
import psycopg

from loadtest.fault_needs import DATABASE_PROXY
from loadtest.faults.fault import Control, Fault, FaultFailed, Target, kill, lives, send, wait_until


def answers(url: str) -> bool:
    """Whether the server accepts a connection and answers on it."""
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


class Postgres(Fault):
    """A fault of the server itself."""

    def postmaster(self) -> psutil.Process:
        """Return the server's first process."""
        try:
            file = Path(self.target.database_folder) / "postmaster.pid"
            return psutil.Process(int(file.read_text().split()[0]))
        except (OSError, ValueError, IndexError, psutil.Error) as error:
            raise FaultFailed(f"PostgreSQL is not running: {error}") from error

    def heal(self) -> None:
        """Wait until it accepts connections."""
        wait_until("PostgreSQL answers", lambda: answers(self.target.database))


class PostgresKilled(Postgres):
    """SIGKILL of the postmaster and all its children; the supervisor restarts it."""

    name = "postgres-killed"
    what = "PostgreSQL is killed with all its processes"
    expected = "no confirmed order is lost"
    lasts = (0.0, 1.0)
    leaves_doubt = True

    def inject(self) -> None:  # noqa: D102
        postmaster = self.postmaster()
        self.did["killed"] = kill([postmaster, *postmaster.children(recursive=True)])


class PostgresRestarted(Postgres):
    """Fast shutdown, like `pg_ctl -m fast`; the supervisor restarts it."""

    name = "postgres-restarted"
    what = "PostgreSQL is restarted"
    expected = "rolled back or unknown; refused before anything is written"
    lasts = (0.0, 1.0)
    leaves_doubt = True

    def inject(self) -> None:  # noqa: D102
        postmaster = self.postmaster()
        send(postmaster.pid, signal.SIGINT)
        wait_until("PostgreSQL stops", lambda: not lives(postmaster), 30)
        self.did["stopped"] = [postmaster.pid]


GREEDY = "greedy"
"""Application name of the connections that exhaust the server."""

TERMINATE = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND application_name <> %s
"""


def terminate(connection: psycopg.Connection) -> int:
    """End all connections except this one and the exhausting ones; return how many."""
    row = connection.execute(TERMINATE, [GREEDY]).fetchone()
    return int(row[0]) if row else 0


def connect(url: str) -> psycopg.Connection:
    """Return a connection in autocommit mode."""
    return psycopg.connect(url, autocommit=True, connect_timeout=5)


class BackendsTerminated(Postgres):
    """`pg_terminate_backend` for all sessions, several times."""

    name = "postgres-terminated"
    what = "all database connections are ended by the server"
    expected = "rolled back or unknown"
    lasts = (0.0, 1.0)
    leaves_doubt = True

    def inject(self) -> None:  # noqa: D102
        with connect(self.target.database) as connection:
            ended = 0
            for _ in range(self.random.randint(2, 5)):
                ended += terminate(connection)
                time.sleep(0.3)
        self.did["ended"] = ended


class ConnectionsExhausted(Postgres):
    """Another client takes all connections, including those that become free."""

    name = "postgres-exhausted"
    what = "all of PostgreSQL's connections are taken"
    expected = "refused before anything is written"

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self._taken: list[psycopg.Connection] = []
        self._end = threading.Event()
        self._grabber = threading.Thread(target=self._grab, daemon=True)

    def inject(self) -> None:  # noqa: D102
        with connect(self.target.database) as connection:
            self._grabber.start()
            wait_until("no connection is left", lambda: self._refused > 0, 20)
            # End the shop's connections too: it needs new ones, and there are none.
            self.did["ended"] = terminate(connection)

    def heal(self) -> None:  # noqa: D102
        self._end.set()
        if self._grabber.is_alive():
            self._grabber.join()
        self.did |= {"taken": len(self._taken), "refused": self._refused}
        for connection in self._taken:
            connection.close()
        super().heal()

    _refused = 0

    def _grab(self) -> None:
        while not self._end.is_set():
            try:
                connection = psycopg.connect(
                    self.target.database, connect_timeout=2, application_name=GREEDY
                )
                self._taken.append(connection)
            except psycopg.OperationalError:
                self._refused += 1
                time.sleep(0.02)


class CommitLost(Fault):
    """The proxy cuts connections at COMMIT: it loses the reply and the COMMIT in turn."""

    name = "commit-lost"
    what = "connections are cut at COMMIT"
    expected = "unknown, or the result after a look-up; never a false refusal"
    needs = frozenset({DATABASE_PROXY})
    lasts = (1.0, 3.0)
    leaves_doubt = True
    within = 10.0
    """Seconds to wait for the first COMMIT."""

    def inject(self) -> None:  # noqa: D102
        proxy = Control(self.target.database_proxy)
        self._before = proxy.tell()
        proxy.tell(mode="pass", cuts=self.random.randint(2, 20))
        wait_until("a COMMIT is cut", lambda: self._cut(proxy.tell()) > 0, self.within)

    def heal(self) -> None:  # noqa: D102
        after = Control(self.target.database_proxy).tell(mode="pass", cuts=0)
        self.did["replies lost"] = after["replies_lost"] - self._before["replies_lost"]
        self.did["commits lost"] = after["commits_lost"] - self._before["commits_lost"]

    def _cut(self, counts: dict[str, int]) -> int:
        return counts["cut"] - self._before["cut"]
