"""Measure the rows in interleaved rounds, so that the machine's drift affects all of them."""

from __future__ import annotations

import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any
from uuid import uuid4

import psutil
from django.db import connection

from inventory.audit import audit
from lab.bench.cpu import CpuClock
from lab.bench.rows import RATIOS, Row
from lab.demo.buyers import create_synthetic_buyers
from lab.stack.stack import Stack
from loadtest import bench_client, open_files
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale
from shop.orders.models import Order

BUYERS = 4000
"""Buyers in turn: so many that a buyer rarely repeats within a batch."""

DRAIN = 15.0
"""Seconds to wait for the last answers; the slowest strategies have long queues."""


@dataclass(slots=True)
class Sample:
    """One measurement of one row.

    Attributes:
        errors: answers with another status than expected, and requests without an answer.
        oversold: units, by the audit.
        lost: confirmed orders that do not exist, or orders that were never confirmed.
        web_us, database_us, redis_us: CPU time per right answer, in microseconds.
    """

    rps: float
    p50_ms: float
    p99_ms: float
    errors: int
    oversold: int
    lost: int
    web_us: float
    database_us: float
    redis_us: float


@dataclass(slots=True)
class Measured:
    """A row and its samples; its figures are medians."""

    row: Row
    samples: list[Sample] = field(default_factory=list)
    worker_mb: float = 0.0

    def median(self, name: str) -> float:
        """Return a figure's median over the rounds."""
        return round(statistics.median(getattr(sample, name) for sample in self.samples), 2)

    def to_json(self) -> dict[str, Any]:
        """Return the row as ``bench --json`` writes it."""
        return {
            "name": self.row.name,
            "concurrency": self.row.concurrency,
            "rps": self.median("rps"),
            "p50_ms": self.median("p50_ms"),
            "p99_ms": self.median("p99_ms"),
            "errors": sum(sample.errors for sample in self.samples),
            "oversold": sum(sample.oversold for sample in self.samples),
            "lost": sum(sample.lost for sample in self.samples),
            "worker_mb": round(self.worker_mb, 1),
            "web_us": self.median("web_us"),
            "database_us": self.median("database_us"),
            "redis_us": self.median("redis_us"),
            "rounds": [sample.rps for sample in self.samples],
        }


class Bench:
    """Measures rows on running servers.

    Args:
        stacks: the server per settings module.
        seconds: per sample.
    """

    def __init__(self, stacks: dict[str, Stack], seconds: float) -> None:
        self._stacks = stacks
        self._seconds = seconds
        self._clocks = {name: CpuClock(stack) for name, stack in stacks.items()}
        self._tokens = create_synthetic_buyers(BUYERS)
        open_files.raise_limit()

    def run(
        self, rows: Sequence[Row], rounds: int, tell: Callable[[Row, int], None]
    ) -> list[Measured]:
        """Measure every row in every round.

        Args:
            rows: the rows.
            rounds: samples per row.
            tell: called with the row and the round before each sample.
        """
        measured = [Measured(row) for row in rows]
        for turn in range(rounds):
            for each in measured:
                tell(each.row, turn)
                each.samples.append(self._sample(each))
        return measured

    def _sample(self, measured: Measured) -> Sample:
        row = measured.row
        stack = self._stacks[row.settings]
        sale = self._sale(row)
        clock = self._clocks[row.settings]
        before = clock.read()
        load = bench_client.run(
            "127.0.0.1",
            stack.port,
            purchases(sale.pk if sale else 1, self._tokens),
            connections=row.concurrency,
            seconds=self._seconds,
            timeout=DRAIN,
        )
        after = clock.read()
        summary = load.summary()
        right = load.statuses.get(row.expected, 0)
        wrong = sum(load.statuses.values()) - right + load.errors
        measured.worker_mb = max(measured.worker_mb, worker_megabytes(stack))
        oversold, lost = self._check(row, sale, right, load.errors)
        # Only correct answers count: a fast refusal is no purchase.
        rate = right / load.seconds
        cpu = after.per(before, right)
        return Sample(
            round(rate, 1),
            summary["p50_ms"],
            summary["p99_ms"],
            wrong,
            oversold,
            lost,
            web_us=cpu.web,
            database_us=cpu.database,
            redis_us=cpu.redis,
        )

    def _sale(self, row: Row) -> Sale | None:
        if row.strategy is None:
            return None
        return open_sale(stock=row.stock, price=99_900, limit=1_000_000, strategy=row.strategy)

    @staticmethod
    def _check(row: Row, sale: Sale | None, promised: int, unanswered: int) -> tuple[int, int]:
        """Return the units oversold, and the orders that do not match the answers."""
        if sale is None:
            return 0, 0
        [book] = audit([sale.item_id]).items
        orders = Order.objects.filter(lines__sale=sale).count()
        expected = 0 if row.expected == 409 else promised
        # A request without an answer may have bought.
        lost = max(expected - orders, 0) + max(orders - expected - unanswered, 0)
        # With unlimited stock, overselling shows as units that are both sold and still available.
        return max(book.held + book.confirmed + book.available - book.total, 0), lost


def purchases(sale: int, tokens: Sequence[str]) -> Iterator[bytes]:
    """Yield requests for one unit each, without end, by these buyers in turn."""
    body = b'{"quantity": 1}'
    start = (
        f"POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    # UUIDs whose last group counts; the rest is unique to this run.
    own = str(uuid4())[:24]
    for number, token in enumerate(cycle(tokens)):
        yield (
            f"{start}Authorization: Bearer {token}\r\nIdempotency-Key: {own}{number:012x}\r\n\r\n"
        ).encode() + body


def worker_megabytes(stack: Stack) -> float:
    """Return the memory of the largest web worker, in MB."""
    master = psutil.Process(stack.supervisor.state("web").pid)
    return max((child.memory_info().rss / 1e6 for child in master.children()), default=0.0)


def ratios(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the compared rates, at the concurrency that all rows have."""
    rates: dict[str, float] = {}
    by_concurrency: dict[int, dict[str, float]] = defaultdict(dict)
    for each in measured:
        by_concurrency[each.row.concurrency][each.row.name] = each.median("rps")
    for concurrency, found in by_concurrency.items():
        for name, other in RATIOS:
            if found.get(other) and name in found:
                suffix = "" if concurrency == measured[0].row.concurrency else f"@{concurrency}"
                rates[f"{name}/{other}{suffix}"] = round(found[name] / found[other], 3)
    return rates


def machine() -> dict[str, Any]:
    """Describe the machine."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        postgres = cursor.fetchone()[0]
        cursor.execute("SHOW fsync")
        fsync = cursor.fetchone()[0]
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "postgresql": postgres,
        "fsync": fsync,
    }
