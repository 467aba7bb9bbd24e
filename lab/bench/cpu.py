"""CPU time of the shop's servers: steadier than rates on a machine that others use as well."""

from __future__ import annotations

from dataclasses import dataclass

import psutil
from django.db import connection

from inventory.redis import client
from lab.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU time, user and system.

    Attributes:
        web, database, redis: seconds of the web processes, of PostgreSQL, of Redis.
    """

    web: float
    database: float
    redis: float

    @property
    def total(self) -> float:
        """Of all of them."""
        return self.web + self.database + self.redis

    def per(self, since: CpuTime, answers: int) -> CpuTime:
        """Return the microseconds per answer since an earlier reading; 0 without answers."""
        share = 1e6 / answers if answers else 0.0
        return CpuTime(
            (self.web - since.web) * share,
            (self.database - since.database) * share,
            (self.redis - since.redis) * share,
        )


class CpuClock:
    """Reads the CPU time of a shop's servers, which must run on this machine.

    Args:
        stack: with a running web server.
    """

    def __init__(self, stack: Stack) -> None:
        self._web = psutil.Process(stack.supervisor.state("web").pid)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self._database = psutil.Process(cursor.fetchone()[0]).parent()
        self._redis = psutil.Process(client().info("server")["process_id"])

    def read(self) -> CpuTime:
        """Return the time used so far."""
        assert self._database is not None
        return CpuTime(_of_tree(self._web), _of_tree(self._database), _of_tree(self._redis))


def _of_tree(parent: psutil.Process) -> float:
    """Return the seconds of a process and its children, also of those that have ended."""
    own = parent.cpu_times()
    seconds = own.user + own.system + own.children_user + own.children_system
    for child in parent.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
    return float(seconds)
