"""The exporter: answers Prometheus on a port of its own, which buyers cannot reach.

One exporter per folder of metrics: a process that sells nothing, so that a scrape delays no
purchase and works while every web process is busy, paused or dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from inventory.metrics import Declared, metrics
from shop.operating.metrics import files, state

FAMILIES = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Processes(Collector):
    """The metrics of all processes, each with a label `process`.

    Not summed here: when a process ends, its counters vanish, and Prometheus would take a falling
    sum for a restart of all counters.
    """

    def collect(self) -> Iterator[Metric]:
        """Read the files."""
        families: dict[str, Any] = {
            each.name: FAMILIES[each.kind](
                each.exported, each.meaning, labels=[*each.labels, "process"]
            )
            for each in metrics.declared.values()
        }
        alive = GaugeMetricFamily("shop_process_alive", "1 if it wrote lately", labels=["process"])
        ahead = GaugeMetricFamily(
            "shop_clock_ahead_seconds",
            "seconds by which its clock is ahead of this machine's",
            labels=["process"],
        )
        started = GaugeMetricFamily(
            "shop_process_started_seconds", "when it began, since the epoch", labels=["process"]
        )
        for written in files.written():
            alive.add_metric([written.process], float(written.alive))
            if written.alive:
                ahead.add_metric([written.process], written.clock_ahead)
                started.add_metric([written.process], written.started)
            _add(families, written)
        yield from (alive, started, ahead)
        yield from families.values()


class State(Collector):
    """What is pending, and which servers answer."""

    def collect(self) -> Iterable[Metric]:
        """Ask the servers."""
        return state.families()


def _add(families: dict[str, Any], written: files.Written) -> None:
    # A process of another version may write metrics that this one does not know.
    for (name, *labels), value in written.snapshot["counters"]:
        if declared := _known(name, labels):
            families[name].add_metric([*labels, written.process], value)
    for (name, *labels), counts, total in written.snapshot["histograms"]:
        if (declared := _known(name, labels)) and len(counts) == len(declared.bounds) + 1:
            buckets = zip([*map(str, declared.bounds), "+Inf"], accumulate(counts), strict=True)
            families[name].add_metric([*labels, written.process], list(buckets), total)
    if written.alive:
        for name, value in written.snapshot["gauges"].items():
            if _known(name, ()):
                families[name].add_metric([written.process], value)


def _known(name: str, labels: Iterable[str]) -> Declared | None:
    declared = metrics.declared.get(name)
    return declared if declared and len(declared.labels) == len(list(labels)) else None


def registry() -> CollectorRegistry:
    """Return everything that is exported."""
    found = CollectorRegistry()
    # Not described in advance, which would ask the servers before anybody scrapes.
    found.register(Processes())
    found.register(State())
    return found


def serve(address: str, port: int) -> tuple[WSGIServer, Any]:
    """Serve `/metrics` until the process ends; return the server and its thread."""
    return start_http_server(port, address, registry())
