"""What all web processes counted, added up."""

import json
import os
import time

import pytest

from inventory.metrics import metrics
from lab.demo import metrics_export
from lab.stack.folder import make_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_export, "folder", lambda: tmp_path / "meters" / "1")
    make_folder(tmp_path / "meters" / "1")
    return tmp_path / "meters" / "1"


def write(path, degraded=False, age=0.0, **counters):
    path.write_text(json.dumps({"counters": counters, "degraded": degraded}))
    os.utime(path, (time.time() - age, time.time() - age))


def test_counters_of_processes_add_up_and_those_of_the_dead_stay_in_the_sum(folder):
    write(folder / "1.json", batches=3, lock_wait_seconds=0.5)
    write(folder / "2.json", batches=4)
    write(folder / "3.json", degraded=True, age=60, batches=10)
    read = metrics_export.read()
    assert read.counters == {"batches": 17, "lock_wait_seconds": 0.5}
    assert (read.processes, read.degraded) == (2, False)


def test_one_process_without_redis_is_said(folder):
    write(folder / "1.json")
    write(folder / "2.json", degraded=True)
    assert metrics_export.read().degraded


def test_without_published_counters_this_processes_own_are_shown(folder):
    metrics.count("batches")
    read = metrics_export.read()
    assert read.processes == 1
    assert read.counters["batches"] == metrics.read()["batches"]


def test_what_is_published_is_read_and_forgotten(folder):
    metrics.count("batches")
    metrics_export.publish()
    give_up = time.monotonic() + 10
    while not list(folder.glob("*.json")):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert metrics_export.read().counters["batches"] == metrics.read()["batches"]
    metrics_export.forget()
    assert list(folder.glob("*.json")) == []


def test_a_container_that_starts_forgets_its_own_counters_and_those_of_the_long_gone(
    folder, monkeypatch
):
    monkeypatch.setattr(metrics_export.socket, "gethostname", lambda: "this")
    write(folder / "this.1.json", batches=1)
    write(folder / "other.1.json", age=3600, batches=2)
    write(folder / "old.1.json", age=2 * metrics_export.FORGOTTEN, batches=4)
    metrics_export.forget()
    assert [path.name for path in folder.glob("*")] == ["other.1.json"]
