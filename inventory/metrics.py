"""Counters, distributions and gauges of this process; an exporter sums them over processes.

Plain integers in memory: an increment costs a fraction of a microsecond, so that a purchase can
afford several, and it works while Redis and the database are away. Increments are not
locked: threads may lose a count.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inventory.outcomes import (
    Busy,
    Granted,
    KeyReused,
    LimitReached,
    NotOpened,
    OutcomeUnknown,
    SoldOut,
)

Key = tuple[str, ...]
"""A metric's name, then the values of its labels."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of durations: from a query to the longest that a buyer waits."""

UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Upper bounds of the buckets of batch sizes."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a metric counts.

    Attributes:
        name: without the prefix; of counters also without the suffix `_total`.
        kind: how Prometheus treats it.
        meaning: one line for the exporter.
        labels: names of the labels.
        bounds: a histogram's upper bounds.
        prefix: of the exported name: the package that counts.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: Sequence[float] = SECONDS
    prefix: str = "inventory"

    @property
    def exported(self) -> str:
        """The name in Prometheus."""
        return f"{self.prefix}_{self.name}"


class Distribution:
    """Observed values, counted in buckets.

    Attributes:
        counts: observations per bucket, the last without an upper bound.
        total: sum of the values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0


class Metrics:
    """The metrics of one process.

    Attributes:
        declared: all metrics by name.
    """

    def __init__(self) -> None:
        self.declared: dict[str, Declared] = {}
        self._counters: defaultdict[Key, int] = defaultdict(int)
        self._distributions: dict[Key, Distribution] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def declare(self, *metrics: Declared) -> None:
        """Add metrics to those that are exported.

        Those without labels begin at 0: a counter that appeared with its first event would hide
        that event from Prometheus, which sees only increases.
        """
        for metric in metrics:
            self.declared[metric.name] = metric
            if metric.kind == "counter" and not metric.labels:
                self.count(metric.name, by=0)
            elif metric.kind == "histogram" and not metric.labels:
                self._distributions.setdefault((metric.name,), Distribution(metric.bounds))

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        """Add to a counter."""
        self._counters[name, *labels] += by

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Count a value in a declared histogram."""
        key = (name, *labels)
        distribution = self._distributions.get(key)
        if distribution is None:
            distribution = self._distributions[key] = Distribution(self.declared[name].bounds)
        distribution.counts[bisect_left(distribution.bounds, value)] += 1
        distribution.total += value

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Let a function tell a declared gauge's value whenever it is exported."""
        self._gauges[name] = read

    def read(self) -> dict[str, float]:
        """Return counters by name, histograms as `_count` and `_sum`, summed over labels."""
        sums: defaultdict[str, float] = defaultdict(int)
        for (name, *_), value in list(self._counters.items()):
            sums[name] += value
        for (name, *_), distribution in list(self._distributions.items()):
            sums[f"{name}_count"] += sum(distribution.counts)
            sums[f"{name}_sum"] += distribution.total
        return dict(sums)

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "counters": [[key, value] for key, value in list(self._counters.items())],
            "histograms": [
                [key, distribution.counts, distribution.total]
                for key, distribution in list(self._distributions.items())
            ],
            "gauges": {name: read() for name, read in self._gauges.items()},
        }


metrics = Metrics()

metrics.declare(
    Declared(
        "purchase_seconds",
        "histogram",
        "purchases by strategy and outcome, from the request to its answer",
        ("strategy", "outcome"),
    ),
    Declared("batch_size", "histogram", "purchases per batch", bounds=UNITS),
    Declared("batches_split", "counter", "batches that failed and were split"),
    Declared("refused_by_hint", "counter", "purchases refused by the sold-out hint"),
    Declared("waiting", "gauge", "purchases that wait in this process for their batch"),
    Declared("degraded", "gauge", "1 while this process sells without Redis"),
    Declared("redis_unavailable", "counter", "calls that Redis did not answer"),
    Declared("commit_unknown", "counter", "commits whose result the database did not tell"),
    Declared("tried_again", "counter", "transactions repeated after a connection failed"),
    Declared("limit_raced", "counter", "transactions repeated because another purchase was faster"),
    Declared("connections_dead", "counter", "connections found dead or read-only before their use"),
    Declared("connections_discarded", "counter", "sessions ended since a statement failed in them"),
    Declared("stale_token", "counter", "writes refused because a newer lock holder had written"),
)


def declare_lock(prefix: str, about: str) -> None:
    """Declare the metrics of a `DegradableLock` with this prefix."""
    metrics.declare(
        Declared(f"{prefix}lock_wait_seconds", "histogram", f"{about}: time until granted or not"),
        Declared(f"{prefix}lock_hold_seconds", "histogram", f"{about}: time for which it was held"),
        Declared(f"{prefix}lock_timeout", "counter", f"{about}: not granted in time"),
        Declared(f"{prefix}lock_lost", "counter", f"{about}: lease ended before the release"),
        Declared(f"{prefix}without_lock", "counter", f"{about}: callers that went on without"),
    )


declare_lock("", "locks of items")
declare_lock("order_", "locks of orders")

OUTCOMES: dict[type, str] = {
    Granted: "granted",
    SoldOut: "sold_out",
    LimitReached: "limit_reached",
    KeyReused: "key_reused",
    Busy: "busy",
    NotOpened: "declined",
    OutcomeUnknown: "unknown",
}
"""Names of outcomes in `purchase_seconds`, in addition to `replayed`, `failed` and `other`."""


def count_purchase(strategy: str, since: float, outcome: object) -> None:
    """Count a purchase with its duration.

    Args:
        strategy: its label: how the purchase is sold.
        since: when it began, by `time.perf_counter`.
        outcome: its outcome, or the exception that ended it.
    """
    if isinstance(outcome, Granted) and outcome.replayed:
        name = "replayed"
    elif isinstance(outcome, NotOpened):
        name = OUTCOMES[NotOpened]
    else:
        # A purchase that was made must not fail for want of a name.
        failed = isinstance(outcome, BaseException)
        name = OUTCOMES.get(type(outcome), "failed" if failed else "other")
    metrics.observe("purchase_seconds", time.perf_counter() - since, strategy, name)
