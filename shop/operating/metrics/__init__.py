"""The shop's own metrics, in addition to those of `inventory`."""

from __future__ import annotations

from functools import partial
from typing import Any

from inventory.metrics import Declared, metrics

of_shop = partial(Declared, prefix="shop")


def declare() -> None:
    """Declare them, and say how the gauges are read."""
    about_calls = "calls of the API by operation and status, from the request to its answer"
    about_provider = "calls of the payment provider by outcome: answered, declined, unknown"
    about_mails = (
        "mails sent and failed, and orders whose buyer has no address that mails can go to; "
        "postponed counts when the mail server did not answer"
    )
    about_database = "requests that the database did not serve, by code: busy, outcome_unknown"
    metrics.declare(
        of_shop("api_seconds", "histogram", about_calls, ("operation", "status")),
        of_shop("database_failed", "counter", about_database, ("code",)),
        of_shop("hashes_refused", "counter", "passwords not hashed since too many waited"),
        of_shop("order_events", "counter", "events of orders by kind", ("kind",)),
        of_shop("provider_seconds", "histogram", about_provider, ("outcome",)),
        of_shop(
            *("task_seconds", "histogram", "Celery tasks by name and outcome: done, failed"),
            ("task", "outcome"),
        ),
        of_shop("mails", "counter", about_mails, ("outcome",)),
        of_shop(
            "clock_ahead_seconds",
            "gauge",
            "seconds by which its clock is ahead of the database's; negative: behind",
        ),
        of_shop("pool_connections", "gauge", "connections of the database pool"),
        of_shop("pool_used", "gauge", "connections of the pool that are lent"),
        of_shop("pool_waiting", "gauge", "callers that wait for a connection"),
    )
    metrics.gauge("pool_connections", lambda: _pool("pool_size"))
    metrics.gauge("pool_used", lambda: _pool("pool_size") - _pool("pool_available"))
    metrics.gauge("pool_waiting", lambda: _pool("requests_waiting"))


def _pool(statistic: str) -> float:
    """Read a statistic of psycopg's pools, summed over the shares; 0 where Django uses none."""
    # Not above: gunicorn's master imports this package, before gevent's patches.
    from django.db import connection

    pools: list[Any] = getattr(connection, "pools", list)()
    return float(sum(pool.get_stats().get(statistic, 0) for pool in pools))
