"""A real Prometheus watches, and is asked how soon a fault's sign rose."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, start_http_server

from lab.proof.dashboard import Prometheus, prometheus
from lab.stack.errors import StackError
from lab.tests.needs import PROMETHEUS
from loadtest.faults import Injected
from locking.tests.needs import require
from shop.tests.processes import wait_for

pytestmark = pytest.mark.long


@pytest.fixture
def counter() -> Counter:
    """What the sign of `redis-killed` counts."""
    return Counter("inventory_redis_unavailable", "calls", registry=CollectorRegistry())


@pytest.fixture
def watcher(counter: Counter, tmp_path: Path) -> Iterator[Prometheus]:
    require(PROMETHEUS)
    registry = CollectorRegistry()
    registry.register(counter)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with prometheus(url, tmp_path / "prometheus") as watcher:
            yield watcher
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_fault_is_seen_once_its_counter_has_risen(watcher: Prometheus, counter: Counter) -> None:
    wait_for(lambda: watcher.ask("sum(up)", time.time(), time.time())[0][1] == 1, 30)
    before = time.monotonic_ns()
    counter.inc()
    fault = Injected("redis-killed", before, before)
    wait_for(lambda: watcher.seen([fault])[0] is not None, 30)
    [seconds] = watcher.seen([fault])
    assert seconds is not None
    assert seconds >= 0
    # What rose before a fault does not tell of it, nor does another fault's sign.
    later = time.monotonic_ns()
    others = [Injected(name, later, later) for name in ("redis-killed", "commit-lost")]
    assert watcher.seen(others) == [None, None]
    assert watcher.seen([Injected("broker-emptied", before, before)]) == [None]


def test_without_prometheus_a_line_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(StackError, match="apt-get install prometheus"), prometheus("", tmp_path):
        pass
