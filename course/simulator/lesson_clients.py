"""The clients of the lessons' scenarios, with their servers, arrival times and work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from course.lessons import lesson_11_table_row as table_row
from course.lessons.lesson_02_setnx_ttl_repair import TtlRepairLock
from course.lessons.lesson_10_redlock import RedlockLock
from course.lessons.lesson_12_row_lock import ForUpdateLock
from course.lessons.lesson_13_unique_index import UniqueIndexGuard
from course.lessons.lesson_14_memcached_add import MemcachedAddLock
from course.simulator import production
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import KEY, PlainLock, Simulation
from course.simulator.table_client import TableServer

TTL = 10  # every lease of the course, in seconds

Make = Callable[[RedisServer], PlainLock]


# -- Redis locks with `acquire` and `release`


def lock_of(kind: Callable[..., PlainLock], **options: float) -> Make:
    """Create a lock of this kind for one client of a server."""
    return lambda server: kind(Simulation.redis_client(server), KEY, **options)


class TtlRepair:
    """Lesson 2, or a `kind` like it, with the methods of the other lessons."""

    def __init__(
        self,
        client: object,
        name: str,
        *,
        expire: float = TTL,
        kind: Callable[..., Any] = TtlRepairLock,
    ) -> None:
        self._locks = kind(client)
        self._name = name
        self._expire = round(expire)

    def acquire(self, timeout: float = 0.0, /) -> Any:
        """Lock."""
        return self._locks.lock(self._name, timeout, self._expire, wait_interval=1.0)

    def release(self) -> None:
        """Unlock."""
        self._locks.unlock(self._name)


def redis_clients(
    simulation: Simulation,
    *,
    make: Make,
    names: str,
    work: float | dict[str, float] = 2.0,
    gaps: tuple[float, ...] = (0.0, 0.1, 0.2),
    skew: dict[str, float] | None = None,
    writes: bool = False,
    timeout: float = 30.0,
    left_behind: tuple[str, ...] = (),
    visitor: bool = False,
    replicated: bool = False,
) -> None:
    """Add clients of one server, A first, then B, …

    `work` is in seconds, `gaps` are the arrival times, `skew` tells how far a clock is ahead;
    `left_behind` is a command that ran before; with `visitor`, one more client comes a day later.
    """
    server = simulation.redis(replicated=replicated)
    if left_behind:
        command, *args = left_behind
        server.model.execute(command.encode(), [arg.encode() for arg in args])
    for place, name in enumerate(names):
        simulation.client(
            name,
            lambda: make(server),
            timeout=timeout,
            work=work if isinstance(work, int | float) else work.get(name, 2.0),
            after=gaps[place],
            skew=(skew or {}).get(name, 0.0),
            writes=writes,
        )
    if visitor:
        simulation.visitor(lambda: make(server))


def production_clients(
    simulation: Simulation,
    *,
    names: str = "AB",
    work: dict[str, float],
    gaps: tuple[float, ...] = (0.0, 0.1),
) -> None:
    """Add clients of the production lock."""
    server = simulation.redis(key=production.LOCK_KEY, replicated=True)
    for place, name in enumerate(names):
        holder = production.Holder(simulation, name, work.get(name, 2.0))
        simulation.start(name, production.Client(server, holder).run, after=gaps[place])


def redlock_clients(
    simulation: Simulation,
    *,
    work: dict[str, float],
    cut_off: tuple[int, ...] = (),
    gap: float = 4.0,
    writes: bool = True,
    kind: Callable[..., PlainLock] = RedlockLock,
) -> None:
    """Add clients of five servers; A cannot reach those in `cut_off`, numbered from 1."""
    # The first one has the usual name, so that a fault of "redis" hits one of the five.
    names = ("redis", "redis-2", "redis-3", "redis-4", "redis-5")
    # No key to watch: one server's key does not tell whether a majority holds the lock.
    servers = [simulation.redis(name, key="", replicated=True) for name in names]
    for number in cut_off:
        servers[number - 1].cut_off.add("A")
    for place, name in enumerate("AB"):
        simulation.client(
            name,
            lambda: kind([simulation.redis_client(server) for server in servers], KEY),
            work=work.get(name, 2.0),
            after=place * gap,
            writes=writes,
        )


# -- tables


def row_clients(
    simulation: Simulation,
    *,
    work: dict[str, float],
    cleaner: bool,
    visitor: bool = False,
    forgets: str = "",
    kind: Callable[..., PlainLock] = table_row.TableRowLock,
) -> None:
    """Add clients of lesson 11; the one that `forgets` never deletes its row."""
    server = simulation.table()
    for place, name in enumerate("AB"):
        _table_client(
            simulation,
            name,
            lambda: kind(server.connect(), KEY),
            work=work.get(name, 2.0),
            after=place * 0.1,
            forgets=name == forgets,
        )
    if cleaner:
        simulation.start("Cleaner", partial(_clean, simulation, server))
    if visitor:
        simulation.visitor(lambda: kind(server.connect(), KEY))


def _clean(simulation: Simulation, server: TableServer) -> None:
    connection = server.connect()
    for _ in range(4):
        simulation.world.sleep(5.0)
        table_row.clean(connection, limit=TTL)


class _WithTimeout:
    """Lesson 12, which waits in the database without a time-out."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.release = lock.release

    def acquire(self, _timeout: float = 0.0, /) -> Any:
        """Lock, without a time-out."""
        return self._lock.acquire()


def row_lock_clients(
    simulation: Simulation,
    *,
    work: dict[str, float],
    row_exists: bool,
    forgets: str = "",
    kind: Callable[..., Any] = ForUpdateLock,
) -> None:
    """Add clients of lesson 12; the one that `forgets` never commits."""
    server = simulation.table()
    if row_exists:
        server.preload("INSERT INTO lock_row (name, taken_at) VALUES (%s, %s)", (KEY, 0.0))
    for place, name in enumerate("AB"):
        _table_client(
            simulation,
            name,
            lambda: _WithTimeout(kind(server.connect(autocommit=False), KEY)),
            work=work.get(name, 2.0),
            after=place * 0.1,
            forgets=name == forgets,
        )


def _table_client(
    simulation: Simulation,
    name: str,
    make: Callable[[], PlainLock],
    *,
    work: float,
    after: float,
    forgets: bool,
) -> None:
    if not forgets:
        simulation.client(name, make, work=work, after=after)
        return

    def run() -> None:
        lock = make()
        simulation.monitor.asks(name)
        if not simulation.attempt(name, lambda: lock.acquire(0.0)):
            return  # another client was first
        simulation.monitor.enters(name)
        simulation.work(name, work)
        simulation.monitor.leaves(name)
        simulation.note(name, "forgets to let go, and idles")
        simulation.world.wait(None)

    simulation.start(name, run, after=after)


def refunds(simulation: Simulation, *, kind: Callable[..., Any] = UniqueIndexGuard) -> None:
    """Add two workers that refund the same order."""
    server = simulation.table()

    def run(name: str) -> None:
        guard = kind(server.connect())
        simulation.monitor.asks(name)
        if guard.refund("order-7", 999):
            simulation.monitor.enters(name)
            simulation.note(name, "pays the refund out; this stays so forever")
        else:
            simulation.monitor.gives_up(name, "finds the refund recorded, and pays nothing")

    for name in "AB":
        simulation.start(name, partial(run, name))


def memcached_clients(
    simulation: Simulation, *, kind: Callable[..., PlainLock] = MemcachedAddLock
) -> None:
    """Add clients of lesson 14."""
    server = simulation.memcached()
    for place, name in enumerate("AB"):
        simulation.client(
            name,
            lambda: kind(simulation.memcached_client(server), KEY),
            after=place * 0.1,
        )
