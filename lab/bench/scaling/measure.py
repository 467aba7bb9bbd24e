"""Measure purchases: points to fit the model to, and points to check it."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Self

import psutil
from django.db import connection

from inventory.models import StockMovement
from lab.bench.cpu import CpuClock
from lab.bench.rows import ENOUGH_STOCK
from lab.bench.run import DRAIN, purchases
from lab.bench.targets import BUYERS
from lab.demo.buyers import create_synthetic_buyers
from lab.stack.embedded import ServerUrls
from lab.stack.private import private_folder
from lab.stack.stack import Stack
from loadtest import bench_client, open_files
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time, open_sale


@dataclass(frozen=True, slots=True, order=True)
class Setup:
    """What is measured.

    Attributes:
        workers: web processes.
        max_batch: most purchases in one transaction.
        connections: buyers; each asks again as soon as it was answered.
        fitted: whether the model may see this point.
        items: among which buyers choose evenly.
    """

    workers: int
    max_batch: int
    connections: int
    fitted: bool = False
    items: int = 1


SETUPS = [
    *(Setup(2, 256, count, fitted=True) for count in (4, 32, 128, 1000)),
    *(Setup(2, 256, count) for count in (8, 16, 64, 256, 500)),
    *(Setup(2, 8, count) for count in (128,)),
    *(Setup(2, 32, count) for count in (128,)),
    # One process alone shows what work costs on a core while no other core is at work.
    Setup(1, 256, 256, fitted=True),
    Setup(1, 256, 32),
    *(Setup(3, 256, count) for count in (128,)),
    Setup(2, 256, 128, fitted=True, items=1000),
    *(Setup(2, 256, 128, items=items) for items in (10, 100)),
]


@dataclass(frozen=True, slots=True)
class Point:
    """What a setup did.

    Attributes:
        rate: purchases per second.
        batch: purchases per transaction, on average.
        items: items per transaction, on average.
        spread: buyers at each web process. The kernel gives a connection to the process that
            accepts first, so they are not spread evenly.
        web_us, database_us, redis_us, load_us: CPU time per purchase, in microseconds.
        wal_bytes: written to the database's log per purchase.
    """

    setup: Setup
    rate: float
    batch: float
    items: float
    spread: tuple[int, ...]
    web_us: float
    database_us: float
    redis_us: float
    load_us: float
    wal_bytes: float

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Point:
        """Return what :meth:`to_json` wrote."""
        own = {"setup": Setup(**document["setup"]), "spread": tuple(document["spread"])}
        return cls(**{**document, **own})


def measure(
    urls: ServerUrls,
    setups: Iterable[Setup],
    seconds: float,
    rounds: int,
    tell: Callable[[str], None],
) -> list[Point]:
    """Measure each setup once per round; return its best sample.

    The best, because whatever else runs on the machine only takes away.
    """
    open_files.raise_limit()
    tokens = create_synthetic_buyers(BUYERS)
    best: dict[Setup, Point] = {}
    for turn in range(rounds):
        for point in _round(urls, sorted(setups), tokens, seconds, tell):
            if turn == 0 or point.rate > best[point.setup].rate:
                best[point.setup] = point
    return list(best.values())


def _round(
    urls: ServerUrls,
    setups: list[Setup],
    tokens: list[str],
    seconds: float,
    tell: Callable[[str], None],
) -> Iterator[Point]:
    """Measure on fresh web processes per number of them and per size of a batch."""
    for (workers, most), group in groupby(setups, key=lambda s: (s.workers, s.max_batch)):
        extra = {"WEB_CONCURRENCY": str(workers), "INVENTORY_MAX_BATCH": str(most)}
        with private_folder() as folder, Stack(folder, urls, extra=extra) as stack:
            stack.start("web")
            _load(stack, Setup(workers, most, 64), tokens, 1.0)  # pools are filled, code is loaded
            for setup in group:
                tell(f"{workers} processes, batches of {most}, {setup.connections} buyers …")
                yield _load(stack, setup, tokens, seconds)


def _load(stack: Stack, setup: Setup, tokens: list[str], seconds: float) -> Point:
    sales = [_open_sale() for _ in range(setup.items)]
    requests = purchases([sale.pk for sale in sales], tokens)

    def load(seconds: float) -> bench_client.Result:
        return bench_client.run(
            *("127.0.0.1", stack.port, requests),
            connections=setup.connections,
            seconds=seconds,
            timeout=DRAIN,
        )

    load(seconds / 6)  # web processes read the sales
    clock = CpuClock(stack)
    opened, before, own, log = database_time(), clock.read(), _own_cpu(), _log_end()
    with _Spread(stack, after=seconds / 2) as spread:
        result = load(seconds)
    right = result.statuses.get(201, 0)
    cpu, own = clock.read().per(before, right), _own_cpu() - own
    items = [sale.item_id for sale in sales]
    sold = StockMovement.objects.filter(item__in=items, reason="sale", created__gte=opened)
    # A transaction has a movement per item, all of them by one statement.
    transactions = max(sold.values("created").distinct().count(), 1)
    return Point(
        setup,
        rate=round(right / result.seconds, 1),
        batch=round(right / transactions, 1),
        items=round(sold.count() / transactions, 1),
        spread=spread.found,
        web_us=round(cpu.web, 1),
        database_us=round(cpu.database, 1),
        redis_us=round(cpu.redis, 1),
        load_us=round(own * 1e6 / max(right, 1), 1),
        wal_bytes=round((_log_end() - log) / max(right, 1)),
    )


def _open_sale() -> Sale:
    return open_sale(stock=ENOUGH_STOCK, price=99_900, limit=ENOUGH_STOCK)


class _Spread:
    """Counts the buyers at each web process, once and in the middle of a load.

    Attributes:
        found: the counts.
    """

    def __init__(self, stack: Stack, after: float) -> None:
        self.found: tuple[int, ...] = ()
        self._master = psutil.Process(stack.supervisor.state("web").pid)
        self._port = stack.port
        self._timer = threading.Timer(after, self._look)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._timer.join()

    def _look(self) -> None:
        found = (
            sum(
                each.status == psutil.CONN_ESTABLISHED and each.laddr.port == self._port
                for each in child.net_connections("tcp")
            )
            for child in self._master.children()
        )
        self.found = tuple(sorted((count for count in found if count), reverse=True))


def _log_end() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return int(cursor.fetchone()[0])


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
