"""The lock benchmark counts correctly, and programs can parse its output."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import pytest
import redis

from development.servers import Valkey
from lab.bench import contenders, locks
from lab.bench.contenders import CEILING, OURS
from locking.tests.conftest import valkey_server
from shop.tests.processes import run

__all__ = ["valkey_server"]

pytestmark = pytest.mark.long


def test_lock_row_shows_waits_and_changes_of_the_holder() -> None:
    # Two processes: a, a, b, a; b has asked at 0.1 s and waited for 0.4 s.
    first = ([(0.0, 0.1), (0.2, 0.2), (0.5, 0.6)], 9)
    second = ([(0.1, 0.5)], 3)
    row = locks.summary("some lock", 1.0, [first, second])
    assert row.processes == 2
    assert row.acquisitions_per_s == 4.0
    assert row.handovers_per_s == 2.0
    assert row.max_ms == pytest.approx(400)
    assert row.jain == pytest.approx(16 / (2 * 10))
    assert row.commands_per_acquisition == 3.0


@pytest.mark.parametrize("lock", [OURS, "locking, asyncio", "redis-py, asyncio"])
def test_lock_workers_count_acquisitions_and_commands(valkey_server: Valkey, lock: str) -> None:
    crew, seconds = locks.Crew(3), 0.5
    try:
        row = crew.run(lock, valkey_server.endpoint, 3, seconds)
    finally:
        crew.close()
    assert row.acquisitions_per_s > 0
    assert row.commands_per_acquisition >= 2 or lock == OURS
    if lock == OURS:
        assert row.handovers_per_s > 0
        # An acquire, a pop, a release, and no polling; what each process asks once comes on top.
        acquisitions = row.acquisitions_per_s * seconds
        sent = row.commands_per_acquisition * acquisitions
        assert sent <= 3 * acquisitions + 4 * row.processes


@pytest.mark.parametrize("processes", [1, 2])
def test_ceiling_hands_its_baton_on(valkey_server: Valkey, processes: int) -> None:
    ceiling = contenders.Ceiling(valkey_server.endpoint, "ceiling", 10, place=0, of=processes)
    with ceiling._socket, redis.Redis.from_url(valkey_server.endpoint) as client:
        client.delete("ceiling:0", "ceiling:1")
        client.rpush("ceiling:0", "the baton")
        assert ceiling.acquire()
        assert bool(client.exists("ceiling")) is (processes == 1)
        ceiling.release()
        assert client.exists("ceiling") == 0
        assert client.llen("ceiling:1") == processes - 1


def test_lock_row_exists_for_a_lock_that_nobody_got() -> None:
    row = locks.summary("portalocker", 5.0, [([], 3), ([], 3)])
    assert (row.processes, row.acquisitions_per_s, row.max_ms) == (2, 0.0, 5000.0)


def test_bench_locks_command_prints_a_table_and_json() -> None:
    command = [sys.executable, "manage.py", "bench_locks", "--processes", "1,2", "--rounds", "1"]
    command += ["--seconds", "0.1", "--json", "--locks", "locking,python-redis-lock"]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {row["processes"] for row in result["rows"]} == {1, 2}
    assert locks.Row(**result["rows"][0]).handovers_per_s == 0, "one process alone"
    assert result["machine"]["cores"] >= 1
    assert result["recovery"][OURS] > 0
    assert "python-redis-lock" in done.stderr  # the table, apart from the JSON


def test_medians_have_their_spread() -> None:
    rounds = [
        locks.Row("some lock", 1, speed, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0) for speed in (90, 100, 130)
    ]
    found = locks.median(rounds)
    assert (found.acquisitions_per_s, found.acquisitions_spread) == (100, 0.2)
    assert (found.handovers_per_s, found.handovers_spread) == (0, 0)


def test_bench_locks_page_explains_the_distance_to_the_ceiling() -> None:
    def row(lock: str, processes: int, figure: float) -> dict[str, object]:
        return asdict(locks.Row(lock, processes, figure, figure, 1.0, 1.0, 1.0, 1.0, 2.0, 0.1))

    rows = [row(OURS, 1, 10_000), row(CEILING, 1, 8_000), row(OURS, 8, 4_000), row(CEILING, 8, 1e4)]
    alone, many = locks.distance_to_ceiling({"rows": rows})
    assert alone == (
        "1 process: acquire and release in 100 µs, of which 125 µs are the ceiling's. "
        "Less than the ceiling: the rounds differ by ±10%."
    )
    assert many == "8 processes: hand-over in 250 µs, of which 100 µs are the ceiling's."
    assert list(locks.distance_to_ceiling({"rows": rows[:1]})) == []
