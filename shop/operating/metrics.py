"""The shop's own metrics, in addition to those of `inventory`."""

from __future__ import annotations

from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from inventory.metrics import SECONDS, sample

API_SECONDS = Histogram(
    "shop_api_seconds",
    "calls of the API by operation and status, from the request to its answer",
    ["operation", "status"],
    buckets=SECONDS,
)
DATABASE_FAILED = Counter(
    "shop_database_failed",
    "requests that the database did not serve, by code: busy, outcome_unknown",
    ["code"],
)
HASHES_REFUSED = Counter("shop_hashes_refused", "passwords not hashed since too many waited")
ORDER_EVENTS = Counter("shop_order_events", "events of orders by kind", ["kind"])
PROVIDER_SECONDS = Histogram(
    "shop_provider_seconds",
    "calls of the payment provider by outcome: answered, declined, unknown",
    ["outcome"],
    buckets=SECONDS,
)
TASK_SECONDS = Histogram(
    "shop_task_seconds",
    "Celery tasks by name and outcome: done, failed",
    ["task", "outcome"],
    buckets=SECONDS,
)
MAILS = Counter(
    "shop_mails",
    "mails sent and failed, and orders whose buyer has no address that mails can go to; "
    "postponed counts when the mail server did not answer",
    ["outcome"],
)
PROCESS_STARTED = Gauge(
    "shop_process_started_seconds",
    "when the process began, since the epoch",
    multiprocess_mode="liveall",
)
CLOCK_AHEAD = Gauge(
    "shop_clock_ahead_seconds",
    "seconds by which the process's clock is ahead of the database's; negative: behind",
    multiprocess_mode="liveall",
)
POOL_CONNECTIONS = Gauge(
    "shop_pool_connections", "connections of the database pool", multiprocess_mode="livesum"
)
POOL_USED = Gauge(
    "shop_pool_used", "connections of the pool that are lent", multiprocess_mode="livesum"
)
POOL_WAITING = Gauge(
    "shop_pool_waiting", "callers that wait for a connection", multiprocess_mode="livesum"
)


def _pool(statistic: str) -> float:
    """Read a statistic of psycopg's pools, summed over the shares; 0 where Django uses none."""
    # Not above: settings are being loaded when this module is.
    from django.db import connection

    pools: list[Any] = getattr(connection, "pools", list)()
    return float(sum(pool.get_stats().get(statistic, 0) for pool in pools))


sample(POOL_CONNECTIONS, lambda: _pool("pool_size"))
sample(POOL_USED, lambda: _pool("pool_size") - _pool("pool_available"))
sample(POOL_WAITING, lambda: _pool("requests_waiting"))
