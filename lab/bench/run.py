"""Measure purchases: requests per second, waits, CPU time, and whether the books agree."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Any
from uuid import uuid4

import psutil

from lab.bench import client
from lab.bench.report import Benchmark, Document, Panel, about, draw, interleaved
from lab.bench.rows import RATIOS, Row, Server
from lab.bench.targets import Target
from lab.stack.stack import Stack
from loadtest.open_files import raise_file_limit

DRAIN = 15.0
"""Seconds to wait for the last answers; the slowest strategies have long queues."""


@dataclass(slots=True)
class Sample:
    """One measurement of one row.

    Attributes:
        errors: answers with another status than expected, and requests without an answer.
        oversold: units, by the audit.
        lost: confirmed orders that do not exist, or orders that were never confirmed.
        worker_mb: memory of the largest web worker.
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
    worker_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A row and its samples; its figures are medians."""

    row: Row
    samples: Sequence[Sample]

    def median(self, name: str) -> float:
        """Return a figure's median over the rounds."""
        return round(statistics.median(getattr(sample, name) for sample in self.samples), 2)

    def _sum(self, name: str) -> int:
        return sum(getattr(sample, name) for sample in self.samples)

    def to_json(self) -> dict[str, Any]:
        """Return the row as `bench --json` writes it."""
        return {
            "name": self.row.name,
            "concurrency": self.row.concurrency,
            **{name: self.median(name) for name in ("rps", "p50_ms", "p99_ms")},
            **{name: self._sum(name) for name in ("errors", "oversold", "lost")},
            "worker_mb": round(max(sample.worker_mb for sample in self.samples), 1),
            **{name: self.median(name) for name in ("web_us", "database_us", "redis_us")},
            "rounds": [sample.rps for sample in self.samples],
        }


class Bench:
    """Measures rows on running servers.

    Args:
        targets: that answer, by server.
        seconds: per sample.
    """

    def __init__(self, targets: Mapping[Server, Target], seconds: float) -> None:
        self._targets = targets
        self._seconds = seconds
        self._sales: dict[Row, list[int]] = {}
        raise_file_limit()

    def run(self, rows: Sequence[Row], rounds: int, tell: Callable[[str], None]) -> list[Measured]:
        """Measure every row in every round.

        Args:
            rows: the rows.
            rounds: samples per row.
            tell: called with a progress message before each sample.
        """
        found = interleaved(rows, rounds, self._sample, tell)
        return [Measured(row, samples) for row, samples in found.items()]

    def _sample(self, row: Row) -> Sample:
        target = self._targets[row.server]
        # Kept over the rounds: web processes know a sale that goes on for a while.
        if row not in self._sales:
            self._sales[row] = target.open_sales(row)
        sales = self._sales[row]
        books, before = target.books(sales), target.clock.read()
        load = client.run(
            "127.0.0.1",
            target.stack.port,
            purchases(sales or [1], target.tokens),
            connections=row.concurrency,
            seconds=self._seconds,
            timeout=DRAIN,
        )
        after = target.clock.read()
        right = load.statuses[row.expected]
        changed = target.books(sales) - books
        share = 1e6 / right if right else 0.0
        return Sample(
            # Only correct answers count: a fast refusal is no purchase.
            rps=round(right / load.seconds, 1),
            p50_ms=load.percentile_ms(0.50),
            p99_ms=load.percentile_ms(0.99),
            errors=load.statuses.total() - right + load.errors,
            oversold=changed.oversold,
            lost=_lost(row, changed.orders, right, load.errors),
            **{f"{name}_us": (used - before[name]) * share for name, used in after.items()},
            worker_mb=worker_megabytes(target.stack),
        )


def _lost(row: Row, orders: int, right: int, unanswered: int) -> int:
    """Return the orders that do not match the answers."""
    if row.strategy is None:
        return 0
    expected = 0 if row.expected == 409 else right
    # A request without an answer may have bought.
    return max(expected - orders, 0) + max(orders - expected - unanswered, 0)


def purchases(sales: Sequence[int], tokens: Sequence[str]) -> Iterator[bytes]:
    """Yield purchases without end, by these buyers in turn.

    Args:
        sales: ids; each purchase is in one of them, at random.
        tokens: the buyers'.
    """
    body = '{"quantity": 1}'
    starts = [
        f"POST /api/v1/sales/{sale}/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        for sale in sales
    ]
    choose = Random(1).choice
    # UUIDs whose last group counts; the rest is unique to this run.
    own = str(uuid4())[:24]
    for number, token in enumerate(cycle(tokens)):
        yield (
            f"{choose(starts)}Authorization: Bearer {token}\r\n"
            f"Idempotency-Key: {own}{number:012x}\r\n\r\n{body}"
        ).encode()


def worker_megabytes(stack: Stack) -> float:
    """Return the memory of the largest web worker, in MB."""
    master = psutil.Process(stack.supervisor.state("web").pid)
    return max((child.memory_info().rss / 1e6 for child in master.children()), default=0.0)


HEADS = (
    "Row",
    "Conns",
    "Per s",
    "p50 ms",
    "p99 ms",
    "Err",
    "Over",
    "MB",
    "Web µs",
    "DB µs",
    "Redis µs",
)
"""Right answers per second; errors; units oversold; CPU time of each server per right answer."""


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the rows."""
    yield HEADS
    for row in document["rows"]:
        yield (
            row["name"],
            str(row["concurrency"]),
            f"{row['rps']:,.0f}",
            f"{row['p50_ms']:,.1f}",
            f"{row['p99_ms']:,.1f}",
            str(row["errors"]),
            f"**{row['oversold']}**" if row["oversold"] else "0",
            f"{row['worker_mb']:.0f}",
            *(f"{row[name]:,.0f}" for name in ("web_us", "database_us", "redis_us")),
        )


def ratios(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the compared rates, at the concurrency that all rows have."""
    rates: dict[str, float] = {}
    by_concurrency: dict[int, dict[str, float]] = defaultdict(dict)
    for case in measured:
        by_concurrency[case.row.concurrency][case.row.name] = case.median("rps")
    for concurrency, found in by_concurrency.items():
        for name, other in RATIOS:
            if found.get(other) and name in found:
                suffix = "" if concurrency == measured[0].row.concurrency else f"@{concurrency}"
                rates[f"{name}/{other}{suffix}"] = round(found[name] / found[other], 3)
    return rates


def _notes(document: Document) -> Iterator[str]:
    if document["ratios"]:
        found = document["ratios"].items()
        yield "Ratios: " + ", ".join(f"{name} {value:.2f}" for name, value in found) + "."


def _row_name(row: Mapping[str, object]) -> str:
    return f"{row['name']}, {row['concurrency']}"


def _panels(document: Document) -> list[Panel]:
    rates = [(_row_name(row), float(row["rps"])) for row in document["rows"]]
    slow = [(_row_name(row), float(row["p99_ms"])) for row in document["rows"]]
    return [
        Panel("Right answers", "per second; longer is better", rates, "{:,.0f}".format),
        Panel("Slowest of 100 (p99)", "ms; shorter is better", slow, "{:,.0f} ms".format),
    ]


def _kinds(document: Document) -> dict[str, str]:
    kinds = {"combining": "ours", "noop": "limit", "noop_api": "limit"}
    return {
        _row_name(row): "bad" if row["oversold"] else kinds.get(row["name"], "bar")
        for row in document["rows"]
    }


TITLE = "Purchases per second"


def _chart(document: Document) -> str:
    return draw(TITLE, about(document), _panels(document), _kinds(document))


PURCHASES = Benchmark("bench", table, _notes, TITLE, _chart)
