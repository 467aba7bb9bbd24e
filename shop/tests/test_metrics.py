"""What Prometheus reads, from the files of all processes."""

from __future__ import annotations

import os
import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inventory.metrics import Declared, Metrics, metrics
from shop import environment
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.conftest import Buyer
from shop.operating import health
from shop.operating.clock import Clock, clock
from shop.operating.metrics import exporter, files
from shop.tests.processes import wait_for

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METRICS_FOLDER", str(tmp_path))
    return tmp_path


def write(folder: Path, process: str) -> None:
    """Write this process's metrics as another process's."""
    (folder / f"{process}.json").write_bytes(files.framed(files._own()))


def scrape() -> Samples:
    """Read what the exporter answers to Prometheus."""
    text = generate_latest(exporter.registry()).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(samples: Samples, name: str, **labels: str) -> float:
    """Sum the samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(
        value for (found, has), value in samples.items() if found == name and wanted <= set(has)
    )


@pytest.mark.django_db(transaction=True)
def test_each_outcome_of_a_purchase_shows_in_every_process_that_counted_it(
    folder: Path, ann: Buyer, sale: Sale
) -> None:
    write(folder, "a.1.web")
    before, key = scrape(), uuid4()
    for quantity in (1, 1, 2):  # replayed, and then another purchase under its key
        ann.buy(sale, quantity, key=key)
    ann.buy(sale, 2)  # one unit over the limit
    write(folder, "a.1.web")
    write(folder, "b.1.web")
    after = scrape()
    name = "inventory_purchase_seconds"
    for outcome in ("granted", "replayed", "key_reused", "limit_reached"):
        labels = {"strategy": "combining", "outcome": outcome}
        first = total(before, f"{name}_count", **labels)
        assert total(after, f"{name}_count", **labels) == 2 * (first + 1), outcome
        one = total(after, f"{name}_bucket", le="+Inf", process="b.1.web", **labels)
        assert one == first + 1
    for name in ("batch_size", "lock_wait_seconds", "lock_hold_seconds"):
        assert total(after, f"inventory_{name}_count", process="a.1.web") > 0, name
    assert total(after, "shop_api_seconds_count", operation="place_order", status="201") > 0


@pytest.mark.django_db(transaction=True)
def test_it_is_told_which_servers_are_up_since_when_and_how_long_their_queues_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = scrape()
    for server in health.SERVERS:
        assert total(samples, "shop_up", server=server) == 1, server
    for server in exporter.STARTED:
        # Redis tells whole seconds.
        assert 0 < total(samples, "shop_server_started_seconds", server=server) < time.time() + 2
    assert ("shop_queue_tasks", (("queue", "mail"),)) in samples
    monkeypatch.setattr(health, "SERVERS", {"database": lambda: 1, "redis": lambda: 1 / 0})
    samples = scrape()
    assert [total(samples, "shop_up", server=name) for name in health.SERVERS] == [1, 0]


@pytest.mark.django_db(transaction=True)
def test_a_process_tells_when_it_started(folder: Path) -> None:
    snapshot = {**metrics.snapshot(), "uptime": 60.0}
    (folder / "a.1.web.json").write_bytes(files.framed(snapshot))
    wrote = (folder / "a.1.web.json").stat().st_mtime
    samples = scrape()
    started = total(samples, "shop_process_started_seconds", process="a.1.web")
    assert started == pytest.approx(wrote - 60)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asked_by", ["a task", "a purchase"])
def test_a_clock_is_compared_with_the_databases(
    asked_by: str, folder: Path, sale: Sale, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_next", 0.0)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    if asked_by == "a task":
        clock.ask()
    else:
        sale_cache().refresh(sale.pk)
    monkeypatch.setattr(time, "time", real)
    write(folder, "a.1.celery")
    ahead = total(scrape(), "shop_clock_ahead_seconds", process="a.1.celery")
    assert ahead == pytest.approx(3600, abs=60)


def test_a_slow_answer_is_no_wrong_clock() -> None:
    database = datetime.fromtimestamp(1_000, UTC)
    one = Clock()
    for asked, answered, ahead in ((990, 1_020, 0), (1_030, 1_031, 30), (960, 970, -30)):
        one.compare(asked, database, answered)
        assert one.ahead == ahead


@pytest.mark.django_db(transaction=True)
def test_a_process_that_died_keeps_its_counters_and_loses_its_gauges(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics.count("stale_token")
    write(folder, "a.1.web")
    monkeypatch.setattr(files, "ALIVE", -1.0)
    samples = scrape()
    assert total(samples, "shop_process_alive", process="a.1.web") == 0
    assert total(samples, "inventory_stale_token_total", process="a.1.web") >= 1
    assert ("inventory_waiting", (("process", "a.1.web"),)) not in samples


def test_a_counter_without_labels_is_exported_before_its_first_event() -> None:
    found = Metrics()
    found.declare(Declared("broken", "counter", "…"), Declared("slow", "histogram", "…"))
    assert found.read() == {"broken": 0, "slow_count": 0, "slow_sum": 0}
    found.declare(Declared("by_kind", "counter", "…", ("kind",)))
    assert "by_kind" not in found.read()


def test_metrics_of_another_version_are_skipped(folder: Path) -> None:
    own: dict[str, Any] = files._own()
    own["counters"] = [[["from_the_future"], 1], [["stale_token", "with a label"], 1]]
    own["histograms"] = [[["batch_size"], [1, 2], 3.0]]
    (folder / "a.1.web.json").write_bytes(files.framed(own))
    families = list(exporter.Processes().collect())
    assert not [
        sample
        for family in families
        for sample in family.samples
        if "future" in sample.name or "batch_size" in sample.name or "stale_token" in sample.name
    ]


def test_every_metric_that_is_counted_is_declared() -> None:
    calls = re.compile(r'metrics\.(?:count|observe|gauge)[(,]\s*f?"([^"]+)"')
    packages = [environment.PROJECT / name for name in ("inventory", "shop")]
    used = {
        name.replace("{self._prefix}", prefix)
        for package in packages
        for path in package.rglob("*.py")
        if "tests" not in path.parts
        for name in calls.findall(path.read_text())
        for prefix in ("", "order_", "draw_")
    }
    assert used == set(metrics.declared)


def write_file(path, *, age=0.0, stale_token=0):
    path.write_bytes(files.framed({"counters": [[["stale_token"], stale_token]]}))
    os.utime(path, (time.time() - age, time.time() - age))


def stale_tokens() -> Any:
    """Return the sum of a counter over the files of all processes."""
    counters = [each.snapshot["counters"] for each in files.written()]
    return sum(value for own in counters for (name, *_), value in own if name == "stale_token")


def test_what_is_published_is_read_and_forgotten(folder):
    metrics.count("stale_token")
    files.publish("web")
    wait_for(lambda: list(folder.glob("*.json")))
    assert stale_tokens() == metrics.read()["stale_token"]
    [written] = files.written()
    assert written.alive
    assert written.process.endswith(f".{os.getpid()}.web")
    files.forget()
    assert list(folder.glob("*.json")) == []
    # Another process of this host goes on: a web server that starts has removed its file.
    wait_for(lambda: list(folder.glob("*.json")))
    assert stale_tokens() == metrics.read()["stale_token"]


def test_metrics_are_written_again_once_the_folder_is_back(folder, monkeypatch):
    open_file, failed = os.open, threading.Event()

    def open_or_note(*arguments):
        try:
            return open_file(*arguments)
        except FileNotFoundError:
            failed.set()
            raise

    monkeypatch.setattr(os, "open", open_or_note)
    files.publish("web")
    wait_for(lambda: list(folder.glob("*.json")))
    away = folder.with_name("away")
    folder.rename(away)
    [path] = away.glob("*.json")
    path.unlink()
    assert failed.wait(60)
    away.rename(folder)
    wait_for(lambda: list(folder.glob("*.json")))


def test_a_file_that_is_being_written_is_read_again_and_one_left_half_written_is_not(
    folder, monkeypatch
):
    write_file(folder / "a.1.web.json", stale_token=1)
    path = folder / "a.2.web.json"
    write_file(path, stale_token=20)
    whole = path.read_bytes()
    # A shorter text over a longer one leaves an end that nobody reads.
    path.write_bytes(whole + b"the end of a longer text")
    assert stale_tokens() == 21
    path.write_bytes(whole.replace(b"20", b"10"))
    assert stale_tokens() == 1
    path.write_bytes(b"")
    monkeypatch.setattr(files, "READINGS", 10_000)
    finish = threading.Timer(0.005, path.write_bytes, [whole])
    finish.start()
    assert stale_tokens() == 21
    finish.join()


def test_a_container_that_starts_forgets_its_own_counters_and_those_of_the_long_gone(
    folder, monkeypatch
):
    monkeypatch.setattr(files.socket, "gethostname", lambda: "this")  # type: ignore[attr-defined]
    write_file(folder / "this.1.web.json")
    write_file(folder / "other.1.web.json", age=3600)
    write_file(folder / "old.1.web.json", age=2 * files.FORGOTTEN)
    files.forget()
    assert [path.name for path in folder.glob("*")] == ["other.1.web.json"]
