"""The Redis lock on real servers, blocking and asyncio: exclusion, order, fence, leases."""

from __future__ import annotations

import gc
import math
import time
from functools import partial
from typing import Any

import pytest
from redis import Redis

from locking import LockError, LockLost, LockTimeout
from locking.redis_lock import ACQUIRE, TOKENS, LockStatus, RedisLock, ask
from locking.tests.helpers import Task, eventually, most_inside

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")

LOCK, FENCE = "lock:{phone}", "lock:{phone}:fence"


def commands(store: Redis) -> int:
    """How many scripts the server has run."""
    return int(store.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


def die_waiting(store: Redis, lease_ms: int = 10_000) -> None:
    """Leave what a waiter leaves that was killed between two of its commands."""
    lock = RedisLock(store, "phone")
    is_fair, queues = "f", "1"
    words = (TOKENS.holder_id(""), str(lease_ms), is_fair, queues)
    answer = ask(lock.server, ACQUIRE, lock.name, lock.key, *words)
    assert not answer[0]


# -- exclusion, order, fence


def test_uncontended_pass_costs_two_commands(side: Any, store: Redis) -> None:
    lock = side.lock()
    lock.acquire().release()
    before = commands(store)
    lock.acquire().release()
    assert commands(store) == before + 2
    assert store.keys() == [FENCE.encode()]
    assert 0 < store.ttl(FENCE) <= 3600


def test_hand_over_costs_the_next_holder_no_command(side: Any, store: Redis) -> None:
    holder = side.lock().acquire()
    heir = Task(lambda: side.lock().acquire(10))
    eventually(lambda: store.info("clients")["blocked_clients"] == 1)
    before = commands(store)
    holder.release()
    lease = heir.result()
    assert commands(store) == before + 1  # the release alone
    assert lease.token > holder.token
    lease.release()
    eventually(lambda: store.keys() == [FENCE.encode()])


def test_fence_grows_when_the_server_lost_its_data_or_time(side: Any, store: Redis) -> None:
    lock = side.lock()
    with lock as first:
        pass
    store.flushall()
    with lock as second:
        assert second.token > first.token
    future = int(time.time() * 1e6) + 60_000_000
    store.set(FENCE, future)
    with lock as third:
        assert third.token == future + 1


@pytest.mark.parametrize("fair", [True, False])
def test_newcomers_overtake_only_where_it_is_unfair(side: Any, store: Redis, fair: bool) -> None:
    lock = side.lock(fair=fair)
    holder = lock.acquire()
    waiting = Task(lambda: side.lock(fair=fair).acquire(20))
    eventually(lambda: lock.waiters() == 1)
    store.delete(LOCK)  # free, and no waiter has been woken yet
    if fair:
        with pytest.raises(LockTimeout):
            side.lock().acquire(0)  # it hands the lock to the first in line
    else:
        side.lock(fair=False).acquire(0).release()
    waiting.result().release()
    with pytest.raises(LockLost):
        holder.release()
    # A message that came too late for its reader expires.
    eventually(lambda: store.keys() == [FENCE.encode()])


@pytest.mark.parametrize("modes", [[True], [False], [True, False]], ids=["fair", "unfair", "mixed"])
def test_threads_exclude_each_other(store: Redis, modes: list[bool]) -> None:
    locks = [RedisLock(store, "phone", fair=fair) for fair in modes]
    assert most_inside([locks[number % len(locks)] for number in range(8)], rounds=50) == 1
    assert store.keys() == [FENCE.encode()]


def test_blocking_and_asyncio_share_one_queue(side: Any, store: Redis) -> None:
    blocking = RedisLock(store, "phone")
    with side.lock() as lease:
        heir = Task(lambda: blocking.acquire(20))
        eventually(lambda: blocking.waiters() == 1)
    held = heir.result()
    assert held.token > lease.token
    with pytest.raises(LockTimeout):
        side.lock().acquire(0)
    held.release()


def test_client_that_decodes_answers_locks_too(store: Redis, store_server: Any) -> None:
    with Redis.from_url(store_server.endpoint, decode_responses=True) as client:
        lock = RedisLock(client, "phone", owner="me")
        holder = lock.acquire()
        heir = Task(lambda: RedisLock(client, "phone").acquire(10))
        eventually(lambda: lock.waiters() == 1)
        assert lock.owner() == "me"
        holder.release()
        heir.result().release()


# -- what is at the lock's keys


@pytest.mark.parametrize("timeout", [0, 0.2])
def test_foreign_key_is_not_overwritten(side: Any, store: Redis, timeout: float) -> None:
    store.rpush(LOCK, "something else")
    lock = side.lock()
    for call in (lambda: lock.acquire(timeout), lock.owner):
        with pytest.raises(LockError, match="holds something else") as caught:
            call()
        assert not hasattr(caught.value, "__notes__"), "it is said once"
    assert store.lrange(LOCK, 0, -1) == [b"something else"]
    store.delete(LOCK)
    lock.acquire(0).release()


def test_foreign_fence_is_named(side: Any, store: Redis) -> None:
    lock = side.lock()
    lease = lock.acquire()
    store.set(FENCE, "abc")
    store.delete(LOCK)
    for call in (lease.release, lock.acquire):
        with pytest.raises(LockError, match=f"{FENCE} holds abc.*: delete it"):
            call()
    assert store.keys() == [FENCE.encode()], "nobody queues for it"
    store.delete(FENCE)
    lock.acquire().release()


def test_foreign_value_has_a_readable_owner(side: Any, store: Redis) -> None:
    store.set(LOCK, b"\xd6{\xff")
    assert side.lock().status() == LockStatus("\\xd6{\\xff", 0, 0.0, ())
    with pytest.raises(LockTimeout):
        side.lock().acquire(0)


def test_status_names_holder_and_waiters(side: Any, store: Redis) -> None:
    lock = side.lock(owner="till-7")
    assert lock.status() == LockStatus(None, 0, 0.0, ())
    assert not lock.locked()
    with lock as lease:
        waiting = Task(lambda: side.lock(owner="till-8").acquire(20))
        eventually(lambda: lock.waiters() == 1)
        status = lock.status()
        assert (status.owner, status.token) == ("till-7", lease.token)
        assert status.waiters == ("till-8",)
        assert 9 < status.remaining <= 10
        assert lock.locked()
    waiting.result().release()


@pytest.mark.parametrize("lease", [0, -1, math.inf, math.nan, 1e300])
def test_lease_without_a_length_is_refused(side: Any, lease: float) -> None:
    with pytest.raises(ValueError, match="a lease lasts"):
        side.lock(lease=lease)


@pytest.mark.parametrize(
    ("name", "error"), [("", ValueError), ("{a}", ValueError), (None, TypeError), (b"a", TypeError)]
)
def test_name_that_cannot_be_one_is_refused(side: Any, name: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="name"):
        side.lock(name)


@pytest.mark.parametrize("timeout", [-1, math.nan, "5", True])
def test_senseless_timeout_is_refused(side: Any, timeout: Any) -> None:
    for call in (lambda: side.lock(timeout=timeout), lambda: side.lock().acquire(timeout)):
        with pytest.raises((ValueError, TypeError), match="time-out"):
            call()


# -- leases


def test_extend_sets_the_end_and_keeps_that_length(side: Any, store: Redis) -> None:
    lease = side.lock(lease=30).acquire()
    lease.extend(5)
    assert 4 < lease.remaining() <= 5
    assert 4000 < store.pttl(LOCK) <= 5000
    lease.extend(20)
    assert 19_000 < store.pttl(LOCK) <= 20_000
    with pytest.raises(ValueError, match="a lease lasts"):
        lease.extend(0)
    lease.release()
    with pytest.raises(LockLost):
        lease.extend(5)


def test_redlock_rb_36_extend_makes_a_lost_lock_anew(side: Any, store: Redis) -> None:
    lease = side.lock().acquire()
    store.delete(LOCK)
    with pytest.raises(LockLost):
        lease.extend(30)
    assert lease.remaining() == 0.0
    assert lease.lost.is_set()
    assert not store.exists(LOCK)


def test_release_twice_is_harmless(side: Any) -> None:
    lease = side.lock().acquire()
    lease.release()
    lease.release()
    assert lease.released
    assert not lease.lost.is_set()
    with pytest.raises(LockLost, match="was released"):
        lease.check()


def test_block_of_a_lost_lease_raises_unless_it_raised(side: Any, store: Redis) -> None:
    lock = side.lock()
    with pytest.raises(LockLost), lock:
        store.delete(LOCK)
    with pytest.raises(ZeroDivisionError) as caught, lock:
        store.delete(LOCK) / 0
    assert "LockLost" in caught.value.__notes__[0]


def test_revoked_lock_is_the_next_waiters_at_once(side: Any, store: Redis, caplog: Any) -> None:
    lock = side.lock()
    lease = lock.acquire()
    die_waiting(store)
    assert lock.waiters() == 1
    assert lock.force_release("the test wants it")
    assert "the test wants it" in caplog.text
    status = lock.status()
    assert (status.waiters, bool(status.owner)) == ((), True)
    with pytest.raises(LockLost):
        lease.release()


def test_reentrant_handle_counts_its_acquires(side: Any, store: Redis) -> None:
    lock = side.lock(reentrant=True)
    outer, inner = lock.acquire(0), lock.acquire(0)
    assert inner.token == outer.token
    inner.release()
    with pytest.raises(LockTimeout):
        side.lock().acquire(0)
    outer.release()
    side.lock().acquire(0).release()
    assert lock.acquire(0).token > outer.token


def test_handle_is_not_reentrant_unasked(side: Any) -> None:
    lock = side.lock()
    with lock, pytest.raises(LockTimeout):
        lock.acquire(0)


def test_threads_may_share_a_handle(side: Any) -> None:
    lock = side.lock()
    inside: list[int] = []

    def enter() -> None:
        for _ in range(20):
            with lock:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    for task in [Task(enter) for _ in range(4)]:
        task.result(within=60)
    assert not lock.locked()


def test_dropped_lease_is_reported_and_ends(side: Any, store: Redis) -> None:
    lock = side.lock(lease=0.5)
    leases = [lock.acquire()]
    with pytest.warns(ResourceWarning, match="was dropped without a release"):
        _drop(leases)
    eventually(lambda: not store.exists(LOCK), within=20)


def _drop(leases: list[Any]) -> None:
    leases.clear()
    gc.collect()


# -- who waits


@pytest.mark.parametrize("dead", [1, 60])
def test_living_waiter_passes_dead_ones(side: Any, store: Redis, dead: int) -> None:
    holder = side.lock().acquire()
    for _ in range(dead):
        die_waiting(store, lease_ms=90_000)
    heir = Task(lambda: side.lock().acquire(60))
    eventually(lambda: side.lock().waiters() == dead + 1)
    holder.release()
    heir.result(within=60).release()  # before the lease of any of the dead has ended


def test_redisson_3004_and_6150_ghosts_stay_in_the_queue(side: Any, store: Redis) -> None:
    lock = side.lock()
    with lock:
        for _ in range(2):
            die_waiting(store)
        heir = Task(lambda: side.lock().acquire(90).release())
        eventually(lambda: lock.waiters() == 3)
        eventually(lambda: lock.waiters() == 1)
    heir.result()
    eventually(lambda: store.keys() == [FENCE.encode()])


def test_queue_in_which_an_heir_was_put_back_expires(store: Redis) -> None:
    """Even if it is the only one in it, and nobody comes again."""
    lock = RedisLock(store, "phone")
    lease = lock.acquire()
    die_waiting(store)
    lease.release()

    def put_back() -> bool:
        with pytest.raises(LockTimeout):
            RedisLock(store, "phone").acquire(0)
        return bool(store.exists(f"{LOCK}:queue"))

    eventually(put_back)
    assert store.pttl(f"{LOCK}:queue") > 0
    assert store.pttl(f"{LOCK}:alive") > 0


def test_timeouts_are_kept_and_the_last_try_is_at_the_end(side: Any) -> None:
    lock = side.lock()
    with side.lock():
        for timeout in (0, 0.05, 0.6):
            began = time.monotonic()
            with pytest.raises(LockTimeout):
                lock.acquire(timeout)
            assert time.monotonic() - began >= timeout - 0.01
    assert lock.waiters() == 0


def test_handles_own_timeout_holds_for_its_block(side: Any) -> None:
    with side.lock(), pytest.raises(LockTimeout), side.lock(timeout=0.1):
        pytest.fail("two are inside")


def test_twenty_waiters_of_a_process_enter_in_their_order(side: Any, store: Redis) -> None:
    """They share the connection that reads their lists."""
    held = side.lock().acquire()
    before = store.info("stats")["total_connections_received"]
    entered: list[int] = []

    def enter(number: int) -> None:
        with side.lock(timeout=30):
            entered.append(number)

    def in_line(count: int) -> bool:
        return bool(side.lock().waiters() == count)

    waiters = []
    for number in range(20):
        waiters.append(Task(enter, number))
        eventually(partial(in_line, number + 1))
    blocked = store.info("clients")["blocked_clients"]
    held.release()
    for waiter in waiters:
        waiter.result(within=30)
    assert entered == list(range(20))
    assert blocked <= 1
    assert store.info("stats")["total_connections_received"] - before <= 40
