"""What Prometheus reads, from the files of all processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inventory import metrics
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.conftest import Buyer
from shop.operating import exporter, health, metric_files
from shop.operating.clock import Clock, clock
from shop.operating.metric_files import ProcessFiles
from shop.tests.other_processes import writing_as
from shop.tests.processes import wait_for

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

OWN = f"a.{os.getpid()}.web"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METRICS_FOLDER", str(tmp_path))
    return tmp_path


@pytest.fixture
def own(folder: Path) -> Iterator[ProcessFiles]:
    """The files of this process, in the folder, under the name `OWN`."""
    metric_files.process.begin(folder, OWN)
    yield metric_files.process
    metric_files.process.end()


def scrape() -> Samples:
    """Read what the exporter answers to Prometheus, with what this process has counted by now."""
    metric_files.process.keep()
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


def stale_tokens(process: str = OWN) -> float:
    """Return a counter of a process as its files have it; -1 if they have none."""
    for found in metric_files.processes():
        if found.name == process:
            for metric in found.metrics():
                if metric.name == "inventory_stale_token":
                    return metric.samples[0].value
    return -1


@pytest.mark.django_db(transaction=True)
def test_metrics_export_each_outcome_of_a_purchase(
    own: ProcessFiles, folder: Path, ann: Buyer, sale: Sale
) -> None:
    with writing_as("b.1.web", folder):
        Counter("inventory_stale_token", "of another process", registry=None).inc(3)
    before, key = scrape(), uuid4()
    for quantity in (1, 1, 2):  # replayed, and then another purchase under its key
        ann.buy(sale, quantity, key=key)
    ann.buy(sale, 2)  # one unit over the limit
    after = scrape()
    name = "inventory_purchase_seconds"
    for outcome in ("granted", "replayed", "key_reused", "limit_reached"):
        labels = {"strategy": "combining", "outcome": outcome, "process": OWN}
        first = total(before, f"{name}_count", **labels)
        assert total(after, f"{name}_count", **labels) == first + 1, outcome
        assert total(after, f"{name}_bucket", le="+Inf", **labels) == first + 1
    for name in ("batch_size", "lock_wait_seconds", "lock_hold_seconds"):
        assert total(after, f"inventory_{name}_count", process=OWN) > 0, name
    assert total(after, "shop_api_seconds_count", operation="place_order", status="201") > 0
    assert total(after, "inventory_stale_token_total", process="b.1.web") == 3


@pytest.mark.django_db(transaction=True)
def test_exporter_reports_servers_and_their_queues(
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
@pytest.mark.parametrize("asked_by", ["a task", "a purchase"])
def test_clock_is_compared_with_the_databases(
    asked_by: str, own: ProcessFiles, sale: Sale, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_next", 0.0)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    if asked_by == "a task":
        clock.ask()
    else:
        sale_cache().refresh(sale.pk)
    monkeypatch.setattr(time, "time", real)
    ahead = total(scrape(), "shop_clock_ahead_seconds", process=OWN)
    assert ahead == pytest.approx(3600, abs=60)


def test_clock_is_not_wrong_after_a_slow_answer() -> None:
    database = datetime.fromtimestamp(1_000, UTC)
    one = Clock()
    for asked, answered, ahead in ((990, 1_020, 0), (1_030, 1_031, 30), (960, 970, -30)):
        one.compare(asked, database, answered)
        assert one.ahead == ahead


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("noticed", ["by its master", "by its silence"])
def test_metrics_of_a_dead_process_keep_counters_but_no_gauges(
    noticed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_files, "socket", SimpleNamespace(gethostname=lambda: "a"))
    with writing_as("a.1.web", folder):
        Counter("inventory_stale_token", "…", registry=None).inc()
        Gauge("inventory_waiting", "…", registry=None, multiprocess_mode="livesum").set(7)
        Gauge("shop_pool_x", "…", registry=None, multiprocess_mode="liveall").set(7)
    samples = scrape()
    assert total(samples, "shop_process_alive", process="a.1.web") == 1
    assert samples["inventory_waiting", (("process", "a.1.web"),)] == 7
    assert samples["shop_pool_x", (("process", "a.1.web"),)] == 7
    if noticed == "by its master":
        metric_files.end(1, "web")
    else:
        monkeypatch.setattr(metric_files, "ALIVE", -1.0)
    samples = scrape()
    assert samples["shop_process_alive", (("process", "a.1.web"),)] == 0
    assert total(samples, "inventory_stale_token_total", process="a.1.web") == 1
    assert total(samples, "inventory_waiting") == total(samples, "shop_pool_x") == 0


def test_metrics_export_a_counter_before_its_first_event(own: ProcessFiles) -> None:
    # Prometheus sees only increases: a counter that came with its first event would hide that.
    assert stale_tokens() >= 0


def test_own_metrics_of_a_team_are_exported_like_ours(own: ProcessFiles) -> None:
    made = Counter("gifts", "wrapped", ["paper"], registry=CollectorRegistry())
    made.labels("red").inc(2)
    own.keep()
    [process] = metric_files.processes()
    [gifts] = [metric for metric in process.metrics() if metric.name == "gifts"]
    assert [(sample.labels, sample.value) for sample in gifts.samples] == [({"paper": "red"}, 2)]


def test_functions_gauges_are_written_by_the_process_that_begins(folder: Path) -> None:
    program = (
        "import django; django.setup()\n"
        "from inventory import metrics\n"
        "from shop.operating import metric_files\n"
        "metrics.sample(metrics.WAITING, lambda: 5.0)\n"
        "metric_files.begin('web')\n"
        "print('begun', flush=True); input()"
    )
    begun = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"]},
    )
    with begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"begun\n"
        wait_for(
            lambda: [
                process
                for process in metric_files.processes()
                if process.gauges().get("inventory_waiting") == 5
            ]
        )
        [process] = metric_files.processes()
        assert process.name.endswith(f".{begun.pid}.web")
        started = process.gauges()["shop_process_started_seconds"]
        assert time.time() - 600 < started <= time.time()
        begun.kill()


@pytest.mark.parametrize("cause", ["full", "unwritable", "missing"])
def test_metrics_are_written_once_their_folder_exists(
    cause: str, folder: Path, own: ProcessFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def fail(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC if cause == "full" else errno.EACCES, "no")
        return real(path, flags, *arguments, **named)

    for path in folder.glob("*"):
        path.unlink()
    away = folder.with_name("away")
    if cause == "missing":
        folder.rename(away)
        folder.write_text("a file in the place of the folder")
    else:
        monkeypatch.setattr(os, "open", fail)
    before = metrics.STALE_TOKEN._value.get()
    for _ in range(3):
        own.keep()
        metrics.STALE_TOKEN.inc()
    assert stale_tokens() == -1
    if cause == "missing":
        folder.unlink()
        away.rename(folder)
    monkeypatch.setattr(os, "open", real)
    own.keep()
    assert stale_tokens() == before + 3
    metrics.STALE_TOKEN.inc()
    own.keep()
    assert stale_tokens() == before + 4


def test_metrics_without_disk_space_are_written_later(
    own: ProcessFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_full(file: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    real = metric_files._take_space
    monkeypatch.setattr(metric_files, "_take_space", be_full)
    made = Counter("many", "…", ["number"], registry=CollectorRegistry())
    for number in range(2_000):  # more than fit into the file
        made.labels(f"{number:0100}").inc()
    before = metrics.STALE_TOKEN._value.get()
    metrics.STALE_TOKEN.inc()
    own.keep()
    assert stale_tokens() == before + 1
    [process] = metric_files.processes()
    assert process.alive
    monkeypatch.setattr(metric_files, "_take_space", real)
    own.keep()
    [many] = [metric for metric in process.metrics() if metric.name == "many"]
    assert len(many.samples) == 2_000
    sizes = [path.stat() for path in process.paths]
    # Blocks of 512 bytes: no file has a hole, whose first use would end the process (SIGBUS).
    assert all(512 * size.st_blocks >= size.st_size for size in sizes)


def test_metrics_forget_dead_processes_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_files, "socket", SimpleNamespace(gethostname=lambda: "this"))
    ages = {
        "this.1.web": 60.0,
        "this.2.celery": 0.0,
        "other.1.web": 3600.0,
        "old.1.web": 2 * metric_files.FORGOTTEN,
    }
    for process, age in ages.items():
        with writing_as(process, folder):
            Counter("inventory_stale_token", "…", registry=None).inc()
            Gauge("inventory_waiting", "…", registry=None, multiprocess_mode="livesum").inc()
        for path in folder.glob(f"*_{process}.db"):
            os.utime(path, (time.time() - age, time.time() - age))
    metric_files.forget()
    assert [process.name for process in metric_files.processes()] == [
        "other.1.web",
        "this.2.celery",
    ]
