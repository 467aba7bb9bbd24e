"""The shop's own metrics, in addition to those of `inventory`."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, connections

from inventory.metrics import Declared, metrics
from inventory.postgresql.base import DatabaseWrapper


def declare() -> None:
    """Declare them, and say how the gauges are read."""
    metrics.declare(
        Declared(
            "api_seconds",
            "histogram",
            "calls of the API by operation and status, from the request to its answer",
            ("operation", "status"),
            prefix="shop",
        ),
        Declared("order_events", "counter", "events of orders by kind", ("kind",), prefix="shop"),
        Declared(
            "provider_seconds",
            "histogram",
            "calls of the payment provider by outcome: answered, declined, unknown",
            ("outcome",),
            prefix="shop",
        ),
        Declared(
            "task_seconds",
            "histogram",
            "Celery tasks by name and outcome: done, failed",
            ("task", "outcome"),
            prefix="shop",
        ),
        Declared(
            "mails",
            "counter",
            "mails sent and failed; postponed counts when the mail server did not answer",
            ("outcome",),
            prefix="shop",
        ),
        Declared("pool_connections", "gauge", "connections of the database pool", prefix="shop"),
        Declared("pool_used", "gauge", "connections of the pool that are lent", prefix="shop"),
        Declared("pool_waiting", "gauge", "callers that wait for a connection", prefix="shop"),
    )
    metrics.gauge("pool_connections", lambda: _pool("pool_size"))
    metrics.gauge("pool_used", lambda: _pool("pool_size") - _pool("pool_available"))
    metrics.gauge("pool_waiting", lambda: _pool("requests_waiting"))


def _pool(statistic: str) -> float:
    """Read a statistic of psycopg's pools, summed over the shares; 0 where Django uses none."""
    connection = connections[DEFAULT_DB_ALIAS]
    pools = connection.pools() if isinstance(connection, DatabaseWrapper) else []
    return float(sum(pool.get_stats().get(statistic, 0) for pool in pools))
