"""How soon each fault was on the dashboard: a Prometheus beside the proof is asked afterwards."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from lab import environment
from lab.stack.errors import StackError
from lab.stack.ports import next_free, release
from lab.stack.stack import READY_SECONDS, serves
from loadtest.faults import Injected

CONFIG = environment.PROJECT / "docker/prometheus/prometheus.yml"
PORT = 9090
WITHIN = 30.0
"""Seconds after the beginning of a fault in which its sign is looked for."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows a fault.

    Attributes:
        panel: of the dashboard.
        query: the fault is seen when this rises.
        by: more than so much, as it also varies without a fault.
    """

    panel: str
    query: str
    by: float = 0.0


_WEB = Sign("Since the last start", 'max(shop_process_started_seconds{process=~".*[.]web"})', 0.5)
_REDIS = Sign("Redis unavailable", "sum(inventory_redis_unavailable_total)")
_DATABASE = Sign("Since the last start", 'max(shop_server_started_seconds{server="database"})', 0.1)

SIGNS = {
    "web-killed": _WEB,
    "web-killed-before-commit": _WEB,
    "web-killed-after-commit": _WEB,
    "web-killed-before-answer": _WEB,
    "holder-paused": Sign("Locks that failed", "sum(inventory_lock_lost_total)"),
    "redis-killed": _REDIS,
    "redis-paused": _REDIS,
    "redis-slow": _REDIS,
    "redis-mute": _REDIS,
    "redis-reset": _REDIS,
    "redis-full": _REDIS,
    "redis-failover": Sign(
        "Since the last start", 'max(shop_server_started_seconds{server="redis"})', 2.0
    ),
    "postgres-killed": _DATABASE,
    "postgres-restarted": _DATABASE,
    "postgres-terminated": Sign("Database pool", "sum(inventory_connections_dead_total)"),
    "postgres-exhausted": Sign("Calls by status", 'sum(shop_api_seconds_count{status="503"})'),
    "commit-lost": Sign("Transactions repeated", "sum(inventory_commit_unknown_total)"),
    "celery-killed": Sign(
        "Since the last start",
        'max(shop_process_started_seconds{process=~".*[.]celery"})',
        0.5,
    ),
    "mail-killed": Sign("Mails", 'sum(shop_mails_total{outcome="postponed"})'),
    "clock-stepped": Sign("Clocks", "max(abs(shop_clock_ahead_seconds))", 1.0),
    "disk-full": Sign("Calls by status", 'sum(shop_api_seconds_count{status="503"})'),
}
"""By the fault's name. An emptied broker has none: the sweeps do what its messages asked for."""


class Prometheus:
    """A running Prometheus.

    Attributes:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def seen(self, faults: Sequence[Injected]) -> list[float | None]:
        """Return for each fault the seconds until its sign rose; None if it has none or did not."""
        return [self._seen(each, SIGNS.get(each.fault)) for each in faults]

    def _seen(self, fault: Injected, sign: Sign | None) -> float | None:
        if sign is None:
            return None
        start = time.time() - time.monotonic() + fault.start / 1e9
        samples = self.ask(sign.query, start, start + WITHIN)
        before = next((value for _, value in samples), 0.0)
        risen = (moment - start for moment, value in samples if value > before + sign.by)
        return next((round(seconds, 1) for seconds in risen), None)

    def ask(self, query: str, start: float, end: float) -> list[tuple[float, float]]:
        """Return moments and values of a query between two times, in seconds since the epoch."""
        asked = urlencode(
            # A counter that nothing has counted yet is absent.
            {"query": f"({query}) or vector(0)", "start": start, "end": end, "step": 0.5}
        )
        answer = urllib3.request("GET", f"{self.url}/api/v1/query_range?{asked}", timeout=10)
        found: list[Any] = answer.json()["data"]["result"]
        return [(at, float(value)) for series in found for at, value in series["values"]]


@contextmanager
def prometheus(metrics_url: str, folder: Path) -> Iterator[Prometheus]:
    """Start one that scrapes these metrics as the one in Compose does.

    Args:
        metrics_url: of the exporter.
        folder: for its configuration and its data.

    Raises:
        StackError: it is not installed, or does not start.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise StackError("--dashboard needs Prometheus: apt-get install prometheus")
    folder.mkdir()
    target = metrics_url.split("/")[2]
    (folder / "prometheus.yml").write_text(CONFIG.read_text().replace("exporter:9101", target))
    shutil.copy(CONFIG.with_name("rules.yml"), folder)
    port = next_free(PORT)
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + READY_SECONDS
        while not serves(f"{url}/-/ready"):
            if process.poll() is not None or time.monotonic() > deadline:
                told = (folder / "log").read_text()[-2000:]
                raise StackError(f"Prometheus does not start:\n{told}")
            time.sleep(0.1)
        release(port)
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait()
