"""Redis locks that several may hold: read/write lock and semaphore."""

from __future__ import annotations

import pytest

from locking import LockError, LockLost, LockTimeout
from locking.backends.redis_shared import (
    AsyncRedisReadWriteLock,
    AsyncRedisSemaphore,
    RedisReadWriteLock,
    RedisSemaphore,
    RedisWriteLock,
)
from locking.tests.helpers import Task, ask, eventually, most_inside

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


def test_readers_share_and_a_writer_excludes(store):
    lock = RedisReadWriteLock(store, "catalogue")
    reading = lock.read.acquire()
    Task(lambda: lock.read.acquire(timeout=0).release()).result()
    with pytest.raises(LockTimeout):
        lock.write.acquire(timeout=0)
    reading.release()
    with lock.write.acquire(timeout=0):
        for half in (lock.read, lock.write):
            with pytest.raises(LockTimeout):
                Task(lambda half=half: half.acquire(timeout=0)).result()
    assert store.keys() == [b"rw:{catalogue}:fence"]


def test_readers_that_come_after_a_waiting_writer_enter_after_it(store):
    lock = RedisReadWriteLock(store, "catalogue")
    order: list[str] = []

    def enter(half, who: str) -> None:
        with half.acquire(timeout=20):
            order.append(who)

    reading = lock.read.acquire()
    tasks = [Task(enter, lock.write, "writer")]
    eventually(lambda: lock.read.waiters() == 1)
    tasks.append(Task(enter, lock.read, "reader"))
    eventually(lambda: lock.read.waiters() == 2)
    reading.release()
    for task in tasks:
        task.result()
    assert order == ["writer", "reader"]


def test_all_waiting_readers_enter_together_when_the_writer_leaves(store):
    lock = RedisReadWriteLock(store, "catalogue")
    writing = lock.write.acquire()
    tasks = [Task(lambda: lock.read.acquire(timeout=20)) for _ in range(5)]
    eventually(lambda: lock.read.waiters() == 5)
    writing.release()
    leases = [task.result() for task in tasks]
    assert len(lock.write.owners()) == 5
    assert len({lease.token for lease in leases}) == 5
    for lease in leases:
        lease.release()


def test_a_semaphore_is_never_over_full(store):
    assert most_inside([RedisSemaphore(store, "pool", 2)] * 6, rounds=30) == 2
    assert store.keys() == [b"semaphore:{pool}:fence"]


def test_a_living_holder_keeps_its_permit_past_the_lease(store):
    semaphore = RedisSemaphore(store, "pool", 1, lease=0.3)
    with semaphore.acquire() as lease:
        assert not lease.lost.wait(0.6)
        with pytest.raises(LockTimeout):
            semaphore.acquire(timeout=0)


def test_force_release_evicts_all_holders(store):
    semaphore = RedisSemaphore(store, "pool", 2)
    leases = [semaphore.acquire() for _ in range(2)]
    assert semaphore.force_release("closing time")
    assert not semaphore.force_release("again")
    for lease in leases:
        with pytest.raises(LockLost):
            lease.release()


@pytest.mark.parametrize("interrupted", [True, False], ids=["interrupted", "at its time-out"])
def test_a_writer_that_leaves_lets_the_readers_behind_it_in_at_once(store, interrupted):
    pair = RedisReadWriteLock(store, "phone")
    held, writer = pair.read.acquire(), pair.write.new_holder()
    ask(pair.write, pair.write.scripts.acquire, writer, "10000", "f", "1")
    behind = pair.read.new_holder()
    ask(pair.read, pair.read.scripts.acquire, behind, "10000", "f", "1")
    assert (len(pair.read.owners()), pair.read.waiters()) == (1, 2)
    if interrupted:
        ask(pair.write, pair.write.scripts.release, writer, "0", f"f10000:{writer}")
    else:
        ask(pair.write, pair.write.scripts.acquire, writer, "10000", "f", "0")
    assert (len(pair.read.owners()), pair.read.waiters()) == (2, 0)
    held.release()


def test_a_dead_reader_among_living_ones_does_not_outlive_its_lease(store):
    pair = RedisReadWriteLock(store, "phone")
    ask(pair.read, pair.read.scripts.acquire, pair.read.new_holder(), "20", "f", "1")
    living = pair.read.acquire()  # the set of holders now lives as long as this lease
    eventually(lambda: len(pair.read.owners()) == 1)
    living.release()
    pair.write.acquire(timeout=0).release()


def test_several_permits_come_together_and_in_order(store):
    one, three = RedisSemaphore(store, "pool", 4), RedisSemaphore(store, "pool", 4, take=3)
    leases = [one.acquire() for _ in range(2)]
    many = Task(lambda: three.acquire(timeout=20))
    eventually(lambda: one.waiters() == 1)
    few = Task(lambda: one.acquire(timeout=20))
    eventually(lambda: one.waiters() == 2)
    assert one.waiters() == 2, "two permits are free, but the first waiter needs three"
    leases.pop().release()
    lease = many.result()
    assert few.is_alive()
    with pytest.raises(LockTimeout):
        one.acquire(timeout=0)
    lease.release()
    few.result().release()
    leases.pop().release()
    three.acquire(timeout=0).release()


@pytest.mark.parametrize(
    ("permits", "settings", "problem"),
    [
        (4, {"take": 0}, "from 1 to all 4"),
        (4, {"take": 5}, "from 1 to all 4"),
        (0, {}, "at least one permit"),
        (2, {"fair": False}, "always fair"),
    ],
)
def test_senseless_settings_of_a_semaphore_are_refused(store, permits, settings, problem):
    with pytest.raises(ValueError, match=problem):
        RedisSemaphore(store, "pool", permits, **settings)


@pytest.mark.parametrize(("held", "wanted"), [("read", "write"), ("write", "read")])
def test_a_thread_that_holds_one_lock_of_a_pair_does_not_get_the_other(store, held, wanted):
    """An upgrade would deadlock as soon as two readers try it."""
    pair = RedisReadWriteLock(store, "phone")
    with getattr(pair, held):
        with pytest.raises(LockError, match="wait forever"):
            getattr(pair, wanted).acquire()
        with pytest.raises(LockTimeout) as refused:
            getattr(pair, wanted).acquire(timeout=0.1)
        assert "holds 'phone'" in refused.value.__notes__[0]
    getattr(pair, wanted).acquire(timeout=0).release()


def test_misspelt_settings_are_refused(store):
    """By the type checker as well: it would report a comment without use."""
    for make in (
        lambda: RedisSemaphore(store, "pool", 2, lesae=3),  # type: ignore[call-arg]
        lambda: RedisReadWriteLock(store, "pool", lesae=3),  # type: ignore[call-arg]
        lambda: RedisWriteLock(store, "pool", lesae=3),  # type: ignore[call-arg]
        lambda: AsyncRedisSemaphore(store, "pool", 2, lesae=3),  # type: ignore[call-arg]
        lambda: AsyncRedisReadWriteLock(store, "pool", lesae=3),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError):
            make()


def test_handles_of_a_semaphore_with_other_permits_are_noticed(store):
    other = RedisSemaphore(store, "pool", 3)
    with RedisSemaphore(store, "pool", 2), pytest.raises(LockError, match="PERMITS 2"):
        other.acquire(timeout=1)
    other.acquire(timeout=1).release()


def test_permits_can_be_counted_and_changed_for_all_handles(store):
    """A growth admits who waits; after a reduction enough must come back first."""
    semaphore, other = RedisSemaphore(store, "pool", 1), RedisSemaphore(store, "pool", 1)
    assert semaphore.available() == 1
    first = semaphore.acquire()
    assert semaphore.available() == 0
    waiting = Task(other.acquire)
    eventually(lambda: semaphore.waiters() == 1)
    assert semaphore.resize(3) == 1
    second = waiting.result()
    assert other.resize(1) == 0
    first.release()
    with pytest.raises(LockTimeout):
        other.acquire(timeout=0)
    second.release()
    assert other.available() == 1
    with RedisSemaphore(store, "pool", 5), pytest.raises(LockTimeout):
        semaphore.acquire(timeout=0)
    with pytest.raises(ValueError, match="at least one permit"):
        semaphore.resize(0)
