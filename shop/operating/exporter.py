"""The exporter: answers Prometheus on a port of its own, which buyers cannot reach.

One exporter per folder of metrics: a process that sells nothing, so that a scrape delays no
purchase and works while every web process is busy, paused or dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from django.db import connection, transaction
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shop.operating import health, metric_files
from shop.redis import client

PENDING = """
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
"""Each table has a partial index of these rows."""

SECONDS = 2
"""Time limit of the statement in the server; `health.asked` bounds what the client waits."""


def pending() -> list[tuple[str, int, int, float]]:
    """Return what is pending: kind, how much, how much of it is dead, seconds of the oldest.

    Raises:
        django.db.Error: the database does not tell.
    """
    # Closed, which gives it back to the pool: the thread that asked ends.
    with closing(connection), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'")
        cursor.execute(PENDING)
        return [(*about, float(age or 0)) for *about, age in cursor.fetchall()]


def database_started() -> float:
    """Return when PostgreSQL was started, in seconds since the epoch by its own clock."""
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM pg_postmaster_start_time())")
        return float(cursor.fetchone()[0])


def redis_started() -> float:
    """Return when Redis was started, or this replica of it, by this machine's clock."""
    return time.time() - float(client().info("server")["uptime_in_seconds"])


STARTED: dict[str, Callable[[], float]] = {"database": database_started, "redis": redis_started}


class Processes(Collector):
    """The metrics of all processes, each with a label `process`.

    Not summed here: when a process ends, its counters vanish, and Prometheus would take a falling
    sum for a restart of all counters.
    """

    def collect(self) -> Iterator[Metric]:
        """Read the files."""
        families: dict[str, Metric] = {}
        alive: dict[str, float] = {}
        for process in metric_files.processes():
            alive[process.name] = process.alive
            for found in process.metrics():
                family = families.setdefault(
                    found.name, Metric(found.name, found.documentation, found.type)
                )
                for sample in found.samples:
                    labels = {**sample.labels, "process": process.name}
                    labels.pop("pid", None)  # which the library gives to some gauges
                    family.add_sample(sample.name, labels, sample.value)
        yield _gauge("shop_process_alive", "1 if it gave a sign of life lately", "process", alive)
        yield from families.values()


class State(Collector):
    """What is pending and which servers answer, asked for at each scrape; all bounded in time.

    Figures that cannot be read are absent.
    """

    def collect(self) -> Iterator[Metric]:
        """Ask the servers."""
        starts = {f"start of the {name}": question for name, question in STARTED.items()}
        questions = {"pending": pending, "queues": health.queue_lengths, **starts}
        answers = health.asked({**health.SERVERS, **questions})
        up = {name: answers[name].error is None for name in health.SERVERS}
        yield _gauge("shop_up", "1 if the server answers in time", "server", up)
        began = {name: answers[f"start of the {name}"].value for name in STARTED}
        yield _gauge(
            "shop_server_started_seconds",
            "when it was started, since the epoch",
            "server",
            {name: when for name, when in began.items() if when is not None},
        )
        waiting, dead, ages = {}, {}, {}
        for kind, *figures in answers["pending"].value or []:
            waiting[kind], dead[kind], ages[kind] = figures
        yield _gauge("shop_owed", "work that is owed, by kind", "kind", waiting)
        yield _gauge("shop_owed_dead", "work that was given up", "kind", dead)
        yield _gauge("shop_owed_seconds", "age of the oldest work owed", "kind", ages)
        lengths = answers["queues"].value or {}
        yield _gauge("shop_queue_tasks", "tasks in the broker's queues", "queue", lengths)


def _gauge(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for of, value in values.items():
        family.add_metric([of], float(value))
    return family


def registry() -> CollectorRegistry:
    """Return everything that is exported."""
    found = CollectorRegistry()
    # Not described in advance, which would ask the servers before anybody scrapes.
    found.register(Processes())
    found.register(State())
    return found
