"""No schedule of a sample breaks the production locks.

The full search is `explore`; `.ci/nightly` runs it for longer.
"""

from __future__ import annotations

import pytest

from course.simulator.explore import Exploration, Tally, run_chunk
from course.simulator.explored_locks import EXPLORED_LOCKS

# A client that crashes in the simulation drops its lease.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("dropped_leases"),
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
]

SCHEDULES, STEP = 300, 50


def search(lock: str) -> None:
    what, total = Exploration(target=EXPLORED_LOCKS[lock]), Tally()
    for first in range(0, SCHEDULES, STEP):
        total.add(run_chunk(what, first, STEP))
        assert total.violations == []
    assert total.overlaps > 0, "no holder was ever late: the search proves nothing"


def test_no_schedule_breaks_the_exclusive_lock():
    search("redis")


def test_no_schedule_breaks_the_unfair_lock():
    search("redis-unfair")


def test_no_schedule_breaks_a_queue_of_fair_and_unfair_waiters():
    search("redis-mixed")


def test_no_schedule_breaks_a_queue_of_threads_and_tasks():
    search("redis-asyncio")


def test_no_schedule_breaks_the_read_write_lock():
    search("redis-rw")


def test_no_schedule_breaks_the_semaphore():
    search("redis-semaphore")
