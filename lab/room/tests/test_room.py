"""What the room reads from real servers, and a duel."""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from prometheus_client import Counter, Gauge, Histogram

from development.leftovers import private_folder
from inventory import services
from inventory.audit import Audit, audit
from inventory.metrics import SECONDS, UNITS
from inventory.redis import ITEM_LOCK, circuit
from lab.models import UnenforcedItem
from lab.room import readings
from lab.room.duel import Duels
from lab.room.readings import Processes, percentile, read_lock
from lab.room.room import HISTORY, Room, curves
from lab.strategies.choice import choose
from loadtest.faults.fault import free_port
from shop.catalogue.models import Sale
from shop.checkout import buy
from shop.redis import client
from shop.tests.other_processes import writing_as
from shop.tests.processes import succeed

pytestmark = pytest.mark.django_db(transaction=True)


def read(sale: int | None = None) -> dict:
    found = readings.Stock(lambda: sale).read()["sale"]
    slow = readings.Books(lambda: found["item"]).read()
    return {"sale": found | slow["books"], "recent": slow["recent"]}


def look(room: Room) -> dict:
    """Read every server once and return the frame."""
    for source in room.sources.values():
        source.step()
    room.step()
    return room.next(0)[1]


def codes(room: Room) -> list[str]:
    return [event["code"] for event in room.timeline.since(0)]


def test_stock_and_books_are_those_of_the_database(sale_of, ann, bob):
    first, newest = sale_of(stock=10), sale_of(stock=5, strategy="guard")
    ann.order(first, 2)
    paid = bob.order(first)
    bob.post(f"orders/{paid}/payment")
    found = read(first.pk)["sale"]
    assert {name: found[name] for name in ("available", "reserved", "held", "sold")} == {
        "available": 7,
        "reserved": 3,
        "held": 2,
        "sold": 1,
    }
    assert (found["oversold"], found["problems"], found["locked"]) == (0, [], True)
    followed = read()["sale"]
    assert (followed["id"], followed["locked"]) == (newest.pk, False)
    assert [each["id"] for each in read()["recent"]][:2] == [newest.pk, first.pk]


def test_room_keeps_the_newest_sale_that_has_begun(sale_of):
    newest, announced = sale_of(stock=10), sale_of(stock=50)
    Sale.objects.filter(pk=announced.pk).update(starts_at=Now() + timedelta(minutes=5))
    assert read()["sale"]["id"] == newest.pk
    Sale.objects.filter(pk=announced.pk).update(starts_at=Now() + timedelta(seconds=30))
    assert read()["sale"]["id"] == announced.pk


def test_wrong_books_are_told(sale_of, ann):
    sale = sale_of(stock=10)
    ann.order(sale, 2)
    UnenforcedItem.add(sale.item_id)
    type(sale.item).objects.filter(pk=sale.item_id).update(available=9)
    found = read(sale.pk)["sale"]
    assert "available 9 + held 2 + confirmed 0 is not total 10" in "".join(found["problems"])


def test_room_shows_a_lock_with_its_holder_and_waiters(sale):
    assert read_lock(sale.item_id)["holder"] is None
    with ITEM_LOCK.make(sale.item_id).acquire(timeout=1) as lease:
        told = read_lock(sale.item_id)
    assert told["holder"].isdecimal()
    assert (told["token"], told["waiters"]) == (lease.token, [])
    assert 0 < told["remaining"] <= told["lease"] == ITEM_LOCK.lease


def test_changes_become_events_once(sale_of, ann):
    sale = sale_of(stock=3)
    room = Room()
    look(room)
    buy(sale.pk, ann.user.pk, uuid4(), 2)
    services.restock(sale.item_id, 4)
    Sale.objects.filter(pk=sale.pk).update(paused=True)
    choose(sale, "guard")
    look(room)
    services.restock(sale.item_id, 1)
    look(room)
    look(room)
    assert codes(room) == ["sale", "restocked", "paused", "strategy", "restocked"]
    assert room.timeline.since(1)[0]["values"] == {"sale": sale.pk, "units": 4}


def test_room_goes_on_without_redis_and_sees_it_come_back(sale, settings):
    room = Room()
    assert look(room)["up"] == {"postgres": True, "redis": True}
    there = settings.REDIS_URL
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    frame = look(room)
    assert frame["up"] == {"postgres": True, "redis": False}
    assert (frame["lock"], frame["sale"]["available"]) == (None, 10)
    settings.REDIS_URL = there
    assert look(room)["up"]["redis"]
    assert codes(room) == ["sale", "away", "back"]
    assert not circuit().open
    assert client().ping()


def test_room_keeps_the_last_figures_without_postgresql(sale, monkeypatch):
    room = Room()
    look(room)

    def fail(_: object) -> None:
        raise readings.Error("the connection is closed")

    monkeypatch.setattr(readings.Stock, "_sale", fail)
    frame = look(room)
    assert frame["up"] == {"postgres": False, "redis": True}
    assert frame["sale"]["available"] == 10
    assert codes(room) == ["sale", "away"]


def test_postgresql_answers_while_its_audit_takes_long(sale, monkeypatch):
    began, end = threading.Event(), threading.Event()

    def long_audit(items: list[int]) -> Audit:
        began.set()
        assert end.wait(60)
        return audit(items)

    def read_books() -> None:
        room.sources["books"].step()
        connection.close()

    monkeypatch.setattr(readings, "audit", long_audit)
    room = Room()
    room.sources["postgres"].step()
    reader = threading.Thread(target=read_books)
    reader.start()
    try:
        assert began.wait(60)
        room.sources["postgres"].step()
        room.step()
        frame = room.next(0)[1]
        assert frame["up"]["postgres"]
        assert (frame["sale"]["available"], "sold" in frame["sale"]) == (10, False)
    finally:
        end.set()
        reader.join()
    room.sources["postgres"].step()
    room.step()
    assert room.next(1)[1]["sale"]["sold"] == 0


def test_web_process_and_its_rates_are_read_from_its_files(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICS_FOLDER", str(tmp_path))

    def sell(granted: int) -> None:
        purchases = Histogram(
            "inventory_purchase_seconds",
            "",
            ["strategy", "outcome"],
            buckets=SECONDS,
            registry=None,
        )
        for _ in range(granted):
            purchases.labels("guard", "granted").observe(0.0005)
            purchases.labels("guard", "sold_out").observe(0.002)
        batches = Histogram("inventory_batch_size", "", buckets=UNITS, registry=None)
        for _ in range(granted // 4):
            batches.observe(4)
        waits = Histogram("inventory_lock_wait_seconds", "", buckets=SECONDS, registry=None)
        for _ in range(granted // 5 * 2):
            waits.observe(0.0005)
        Counter("inventory_stale_token", "", registry=None).inc(granted // 50)
        Counter("inventory_without_lock", "", registry=None).inc(granted // 10)
        for name, value in (("waiting", 7), ("degraded", 1)):
            gauge = Gauge(f"inventory_{name}", "", registry=None, multiprocess_mode="livesum")
            gauge.set(value)

    reader = Processes()
    with writing_as("host.1.web", tmp_path):  # a process that lives on every machine
        sell(0)
        told = reader.read()
        running = {"pid": "1", "state": "running", "waiting": 7, "without_redis": True}
        assert told["web"] == [running]
        assert (told["accepted"], told["p50"], told["batch"]) == (0, None, None)
        sell(100)
    told = reader.read()
    assert told["accepted"] == told["refused"] > 0
    assert (told["failed"], told["batch"], told["p50"]) == (0, 4.0, 1.0)
    assert told["stale"] == 2
    assert told["totals"]["accepted"] == told["totals"]["refused"] == 100
    assert (told["totals"]["without_lock"], told["totals"]["grants"]) == (10, 30)
    with writing_as("host.2147483646.web", tmp_path):
        sell(100)
    assert [each["pid"] for each in reader.read()["web"]] == ["1"]
    for path in tmp_path.glob("*.db"):
        path.unlink()
    with writing_as("host.1.web", tmp_path):  # a master that has started again
        sell(0)
    told = reader.read()
    assert (told["accepted"], told["p50"], told["batch"]) == (0, None, None)


def test_percentile_lies_within_its_bucket():
    assert percentile([0] * 14, 0.5) is None
    assert percentile([10, *[0] * 13], 0.5) == 0.5
    assert percentile([0, 10, *[0] * 12], 0.5) == 1.75
    assert percentile([*[0] * 13, 10], 0.5) == 10_000


def test_viewer_who_comes_late_gets_the_last_minute(sale):
    room = Room()
    for _ in range(HISTORY + 2):
        room.step()
    greeting = room.greeting()
    assert len(greeting["history"]) == HISTORY
    assert greeting["history"][-1] == curves(room.next(0)[1])


@pytest.mark.long
def test_rush_begins_without_what_the_last_one_left(sale):
    room = Room()
    room.show("card", {"run": 1})
    room.show("fault_over", {"code": "healed", "values": {"fault": "holder-paused"}})
    room.begin_rush(sale.pk, 500)
    room.step()
    frame = room.next(0)[1]
    assert frame["rush"] == {"sale": sale.pk, "buyers": 500}
    assert frame.keys().isdisjoint({"card", "fault_over"})


@pytest.mark.long
def test_duel_shows_that_naive_oversells_and_combining_does_not(tmp_path):
    words = ("--buyers", "80", "--stock", "20", "--seed", "7", "--folder", str(tmp_path))
    # Not among the mails of other databases' shops, whose orders have the same numbers.
    with private_folder() as data:
        env = {**os.environ, "SHOP_DATA": str(data)}
        said = succeed(sys.executable, "manage.py", "duel", "--lines", *words, env=env)
    told = [json.loads(line) for line in said.splitlines()]
    assert told[0] == {"run": 1}
    sides = [each["side"] for each in told if "side" in each]
    assert sides == sorted(sides)  # one after the other
    assert set(sides) == {0, 1}
    naive, combining = told[-1]["results"]
    assert (naive["outcome"], naive["oversold"] > 0) == ("fail", True)
    assert (combining["outcome"], combining["orders"], combining["oversold"]) == ("pass", 20, 0)
    duels = Duels("", tmp_path, Room())
    recorded = json.loads(duels.recording().read_bytes())
    assert (recorded["buyers"], recorded["units"], recorded["seed"]) == (80, 20, 7)
    for side, ended in zip(recorded["sides"], (naive, combining), strict=True):
        replay = side.pop("replay")
        assert side == {"strategy": replay["title"], **ended}
        assert replay["units"] == 20
        assert [mark["property"] for mark in replay["marks"]] == ["P1"] * (ended["oversold"] > 0)
    for side in ("first", "second"):
        report = duels.report(f"1/{side}")
        assert report is not None
        assert "<html" in report.read_text(encoding="utf-8")
    for path in ("1/third", "2/first", "1/../1/first", "", "1/first/x"):
        assert duels.report(path) is None
