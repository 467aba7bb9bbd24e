"""The state of books and servers, asked for at each scrape. Every question is bounded in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import connection, transaction
from prometheus_client.core import GaugeMetricFamily, Metric

from inventory.redis import client
from shop.operating import health

LAGS = """
SELECT kind, count(id) FILTER (WHERE dead IS NULL), count(dead),
       extract(epoch FROM now() - min(created) FILTER (WHERE dead IS NULL))
FROM (VALUES ('outbox', ''), ('mail', 'mail')) AS queues (kind, queue)
LEFT JOIN (
    SELECT * FROM inventory_outboxmessage WHERE done IS NULL AND dead IS NULL
    UNION ALL
    SELECT * FROM inventory_outboxmessage WHERE dead IS NOT NULL
) AS undone USING (queue)
GROUP BY kind
UNION ALL
SELECT 'expiry', count(*), 0, extract(epoch FROM now() - min(deadline))
FROM inventory_reservation WHERE state = 'held' AND deadline < now()
UNION ALL
SELECT 'payment', count(*), 0, extract(epoch FROM now() - min(created))
FROM shop_payment WHERE state = 'pending'
UNION ALL
SELECT 'refund', count(*), 0, extract(epoch FROM now() - min(created))
FROM shop_refund WHERE state = 'pending'
UNION ALL
SELECT 'alert', count(*), 0, extract(epoch FROM now() - min(opened))
FROM shop_alert WHERE closed IS NULL
"""
"""Pending work: its kind, how much, how much of it is dead, the age of the oldest in seconds.
Each table has a partial index of these rows."""

SECONDS = 2
"""Time limit of the statement in the server; `health.asked` bounds what the client waits."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Work that the database says is pending."""

    kind: str
    waiting: int
    dead: int
    age: float


def pending() -> list[Pending]:
    """Return what is pending, by kind.

    Raises:
        django.db.Error: the database does not tell.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'")
            cursor.execute(LAGS)
            return [
                Pending(kind, waiting, dead, float(age or 0))
                for kind, waiting, dead, age in cursor.fetchall()
            ]
    finally:
        connection.close()  # back to the pool: the thread that asked ends


def database_started() -> float:
    """Return when PostgreSQL was started, in seconds since the epoch by its own clock."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM pg_postmaster_start_time())")
            return float(cursor.fetchone()[0])
    finally:
        connection.close()


def redis_started() -> float:
    """Return when Redis was started, or this replica of it, by this machine's clock."""
    return time.time() - float(client().info("server")["uptime_in_seconds"])


STARTED: dict[str, Callable[[], float]] = {"database": database_started, "redis": redis_started}


def families() -> Iterable[Metric]:
    """Return the state as Prometheus metrics; figures that cannot be read are absent."""
    questions: dict[str, Callable[[], object]] = {
        "pending": pending,
        "queues": health.queue_lengths,
        **{f"start of the {name}": question for name, question in STARTED.items()},
    }
    answers = health.asked({**health.SERVERS, **questions})
    up = GaugeMetricFamily("shop_up", "1 if the server answers in time", labels=["server"])
    for name in health.SERVERS:
        up.add_metric([name], float(answers[name].error is None))
    yield up
    started = GaugeMetricFamily(
        "shop_server_started_seconds", "when it was started, since the epoch", labels=["server"]
    )
    for name in STARTED:
        if (when := answers[f"start of the {name}"].value) is not None:
            started.add_metric([name], when)
    yield started
    waiting = GaugeMetricFamily("shop_owed", "work that is owed, by kind", labels=["kind"])
    dead = GaugeMetricFamily("shop_owed_dead", "work that was given up", labels=["kind"])
    age = GaugeMetricFamily("shop_owed_seconds", "age of the oldest work owed", labels=["kind"])
    found = answers["pending"].value
    for each in found if isinstance(found, list) else ():
        waiting.add_metric([each.kind], each.waiting)
        dead.add_metric([each.kind], each.dead)
        age.add_metric([each.kind], each.age)
    queue = GaugeMetricFamily("shop_queue_tasks", "tasks in the broker's queues", labels=["queue"])
    lengths = answers["queues"].value
    for name, length in lengths.items() if isinstance(lengths, dict) else ():
        queue.add_metric([name], length)
    yield from (waiting, dead, age, queue)
