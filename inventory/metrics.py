"""What this app counts and measures, as metrics of `prometheus_client` in its default registry.

A project with one process needs nothing else. One with several uses the library's multiprocess mode
(its variable `PROMETHEUS_MULTIPROC_DIR`), or what the shop makes of that, which also counts while
the folder is full or missing (`shop/operating/metric_files.py`).

A gauge that is a function's result, such as the length of a queue, cannot be asked for from another
process. So the thread that writes a process's files calls `take_samples` a few times per second.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of durations: from a query to the longest that a buyer waits."""

UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Upper bounds of the buckets of batch sizes."""

PURCHASE_SECONDS = Histogram(
    "inventory_purchase_seconds",
    "purchases by strategy and outcome, from the request to its answer",
    ["strategy", "outcome"],
    buckets=SECONDS,
)
BATCH_SIZE = Histogram("inventory_batch_size", "purchases per batch", buckets=UNITS)
BATCHES_SPLIT = Counter("inventory_batches_split", "batches that failed and were split")
REFUSED_BY_HINT = Counter("inventory_refused_by_hint", "purchases refused by the sold-out hint")
WAITING = Gauge(
    "inventory_waiting",
    "purchases that wait in this process for their batch",
    multiprocess_mode="livesum",
)
DEGRADED = Gauge(
    "inventory_degraded",
    "1 while this process sells without Redis",
    multiprocess_mode="livesum",
)
REDIS_UNAVAILABLE = Counter("inventory_redis_unavailable", "calls that Redis did not answer")
COMMIT_UNKNOWN = Counter(
    "inventory_commit_unknown", "commits whose result the database did not tell"
)
TRIED_AGAIN = Counter("inventory_tried_again", "transactions repeated after a connection failed")
LIMIT_RACED = Counter(
    "inventory_limit_raced", "transactions repeated because another purchase was faster"
)
CONNECTIONS_DEAD = Counter(
    "inventory_connections_dead", "connections found dead or read-only before their use"
)
CONNECTIONS_DISCARDED = Counter(
    "inventory_connections_discarded", "sessions ended since a statement failed in them"
)
STALE_TOKEN = Counter(
    "inventory_stale_token", "writes refused because a newer lock holder had written"
)


class LockMetrics:
    """The metrics of the locks of one kind (`DegradableLock`).

    Args:
        prefix: of their names, after `inventory_`.
        about: what is locked.
    """

    def __init__(self, prefix: str, about: str) -> None:
        name = f"inventory_{prefix}"
        self.wait = Histogram(
            f"{name}lock_wait_seconds", f"{about}: time until granted or not", buckets=SECONDS
        )
        self.hold = Histogram(
            f"{name}lock_hold_seconds", f"{about}: time for which it was held", buckets=SECONDS
        )
        self.timeout = Counter(f"{name}lock_timeout", f"{about}: not granted in time")
        self.lost = Counter(f"{name}lock_lost", f"{about}: lease ended before the release")
        self.without = Counter(f"{name}without_lock", f"{about}: callers that went on without")


ITEM_LOCKS = LockMetrics("", "locks of items")

_sampled: list[tuple[Gauge, Callable[[], float]]] = []


def sample(gauge: Gauge, read: Callable[[], float]) -> None:
    """Let a function tell a gauge's value."""
    gauge.set_function(read)
    _sampled.append((gauge, read))


def take_samples() -> None:
    """Set the gauges that functions tell, for processes that read them in this one's files."""
    for gauge, read in _sampled:
        gauge.set(read())
