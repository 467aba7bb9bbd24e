"""The metrics of all processes, as files."""

import os
import threading
import time

import pytest

from inventory.metrics import metrics
from shop.operating.metrics import files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICS_FOLDER", str(tmp_path))
    return tmp_path


def write(path, *, degraded=False, age=0.0, batches=(), **counters):
    snapshot = {
        "counters": [[[name], count] for name, count in counters.items()],
        "histograms": [[["batch_size"], [len(batches)], sum(batches)]],
        "gauges": {"degraded": degraded},
    }
    path.write_bytes(files.framed(snapshot))
    os.utime(path, (time.time() - age, time.time() - age))


def test_counters_of_processes_add_up_and_those_of_the_dead_stay_in_the_sum(folder):
    write(folder / "a.1.web.json", batches=[1, 2, 2.5])
    write(folder / "a.2.web.json", batches=[4])
    write(folder / "a.3.web.json", degraded=True, age=60, refused_by_hint=10)
    write(folder / "a.4.celery.json", stale_token=1)
    read = files.read()
    assert read.counters == {
        "batch_size_count": 4,
        "batch_size_sum": 9.5,
        "refused_by_hint": 10,
        "stale_token": 1,
    }
    assert (read.processes, read.degraded) == (2, False)


def test_one_process_without_redis_is_said(folder):
    write(folder / "a.1.web.json")
    write(folder / "a.2.web.json", degraded=True)
    assert files.read().degraded


def test_without_a_folder_this_processes_own_are_shown(monkeypatch):
    monkeypatch.delenv("METRICS_FOLDER", raising=False)
    metrics.count("stale_token")
    files.publish("web")
    read = files.read()
    assert read.processes == 1
    assert read.counters["stale_token"] == metrics.read()["stale_token"]


def test_what_is_published_is_read_and_forgotten(folder):
    metrics.count("stale_token")
    files.publish("web")
    give_up = time.monotonic() + 10
    while not list(folder.glob("*.json")):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert files.read().counters["stale_token"] == metrics.read()["stale_token"]
    [written] = files.written()
    assert written.alive
    assert written.process.endswith(f".{os.getpid()}.web")
    files.forget()
    assert list(folder.glob("*.json")) == []
    # Another process of this host goes on: a web server that starts has removed its file.
    while not list(folder.glob("*.json")):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert files.read().counters["stale_token"] == metrics.read()["stale_token"]


def test_a_file_that_is_being_written_is_read_again_and_one_left_half_written_is_not(
    folder, monkeypatch
):
    write(folder / "a.1.web.json", stale_token=1)
    path = folder / "a.2.web.json"
    write(path, stale_token=20)
    whole = path.read_bytes()
    # A shorter text over a longer one leaves an end that nobody reads.
    path.write_bytes(whole + b"the end of a longer text")
    assert files.read().counters["stale_token"] == 21
    path.write_bytes(whole.replace(b"20", b"10"))
    assert files.read().counters["stale_token"] == 1
    path.write_bytes(b"")
    monkeypatch.setattr(files, "READINGS", 10_000)
    finish = threading.Timer(0.005, path.write_bytes, [whole])
    finish.start()
    assert files.read().counters["stale_token"] == 21
    finish.join()


def test_a_container_that_starts_forgets_its_own_counters_and_those_of_the_long_gone(
    folder, monkeypatch
):
    monkeypatch.setattr(files.socket, "gethostname", lambda: "this")  # type: ignore[attr-defined]
    write(folder / "this.1.web.json")
    write(folder / "other.1.web.json", age=3600)
    write(folder / "old.1.web.json", age=2 * files.FORGOTTEN)
    files.forget()
    assert [path.name for path in folder.glob("*")] == ["other.1.web.json"]
