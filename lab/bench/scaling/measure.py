"""Measure purchases of one hot item: points to fit the model to, and points to check it."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

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
from shop.catalogue.sales import open_sale
from shop.orders.models import Order


@dataclass(frozen=True, slots=True, order=True)
class Setup:
    """What is measured.

    Attributes:
        workers: web processes.
        max_batch: most purchases in one transaction.
        connections: buyers; each asks again as soon as it was answered.
        fitted: whether the model may see this point.
    """

    workers: int
    max_batch: int
    connections: int
    fitted: bool = False


SETUPS = [
    *(Setup(2, 256, count, fitted=True) for count in (4, 32, 128, 1000)),
    *(Setup(2, 256, count) for count in (8, 16, 64, 256, 500)),
    *(Setup(2, 8, count) for count in (128,)),
    *(Setup(2, 32, count) for count in (128,)),
    *(Setup(1, 256, count) for count in (32, 256)),
    *(Setup(3, 256, count) for count in (128,)),
]


@dataclass(frozen=True, slots=True)
class Point:
    """What a setup did.

    Attributes:
        rate: purchases per second.
        batch: purchases per transaction, on average.
        web_us, database_us, redis_us, load_us: CPU time per purchase, in microseconds.
        wal_bytes: written to the database's log per purchase.
    """

    setup: Setup
    rate: float
    batch: float
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
        return cls(**{**document, "setup": Setup(**document["setup"])})


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
    sale = open_sale(stock=ENOUGH_STOCK, price=99_900, limit=ENOUGH_STOCK, strategy="combining")
    clock = CpuClock(stack)
    before, own, log = clock.read(), _own_cpu(), _log_end()
    load = bench_client.run(
        *("127.0.0.1", stack.port, purchases([sale.pk], tokens)),
        connections=setup.connections,
        seconds=seconds,
        timeout=DRAIN,
    )
    right = load.statuses.get(201, 0)
    cpu, own = clock.read().per(before, right), _own_cpu() - own
    batches = StockMovement.objects.filter(item=sale.item_id, reason="sale").count()
    bought = Order.objects.filter(lines__sale=sale).count()
    return Point(
        setup,
        rate=round(right / load.seconds, 1),
        batch=round(bought / max(batches, 1), 1),
        web_us=round(cpu.web, 1),
        database_us=round(cpu.database, 1),
        redis_us=round(cpu.redis, 1),
        load_us=round(own * 1e6 / max(right, 1), 1),
        wal_bytes=round((_log_end() - log) / max(right, 1)),
    )


def _log_end() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return int(cursor.fetchone()[0])


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
