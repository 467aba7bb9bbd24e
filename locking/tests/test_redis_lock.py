"""The production lock on a real server: exclusion, order, fence."""

from __future__ import annotations

import time
from functools import partial
from math import inf, nan

import pytest

from locking import LockError, LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_status import LockStatus, status_of
from locking.tests.helpers import (
    Task,
    ask,
    before_answer,
    eventually,
    fence,
    most_inside,
    on_pop,
)

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


def script_calls(store):
    return store.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_an_uncontended_pass_costs_two_commands_and_leaves_only_the_fence(store):
    lock = RedisLock(store, "phone")
    lock.acquire().release()
    before = script_calls(store)
    lock.acquire().release()
    assert script_calls(store) == before + 2
    assert store.keys() == [b"lock:{phone}:fence"]
    assert 0 < store.ttl("lock:{phone}:fence") <= 3600


def test_a_hand_over_costs_the_next_holder_no_command(store):
    holder = RedisLock(store, "phone").acquire()
    heir = Task(lambda: RedisLock(store, "phone").acquire(timeout=10))
    eventually(lambda: store.info("clients")["blocked_clients"] == 1)
    before = script_calls(store)
    holder.release()
    lease = heir.result()
    assert script_calls(store) == before + 1  # the release alone
    assert lease.token > holder.token
    lease.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_the_fence_grows_also_when_the_server_lost_everything_or_its_clock_stepped_back(store):
    lock = RedisLock(store, "phone")
    with lock as first:
        pass
    store.flushall()
    with lock as second:
        assert fence(second) > fence(first)
    future = int(time.time() * 1e6) + 60_000_000
    store.set(lock.remote.keys[1], future)
    with lock as lease:
        assert lease.token == future + 1


@pytest.mark.parametrize("fair", [True, False])
def test_newcomers_overtake_waiters_only_where_the_lock_is_not_fair(store, fair):
    lock = RedisLock(store, "phone", fair=fair)
    holder = lock.acquire()
    waiting = Task(lambda: RedisLock(store, "phone", fair=fair).acquire(timeout=20))
    eventually(lambda: lock.waiters() == 1)
    store.delete("lock:{phone}")  # free, and nobody has been told yet
    if fair:
        with pytest.raises(LockTimeout):
            RedisLock(store, "phone").acquire(timeout=0)  # it hands the lock to the first in line
    else:
        RedisLock(store, "phone", fair=False).acquire(timeout=0).release()
    waiting.result(within=5).release()
    with pytest.raises(LockLost):
        holder.release()
    # A message that came too late for its reader expires.
    eventually(lambda: store.keys() == [b"lock:{phone}:fence"])


@pytest.mark.parametrize(
    "modes", [(True,), (False,), (True, False)], ids=["fair", "unfair", "mixed"]
)
def test_only_one_of_many_threads_is_inside_whatever_their_modes(store, modes):
    locks = [RedisLock(store, "phone", fair=fair) for fair in modes]
    assert most_inside([locks[number % len(locks)] for number in range(8)], rounds=50) == 1
    assert store.keys() == [b"lock:{phone}:fence"]


@pytest.mark.parametrize("kind", [RedisLock, partial(RedisLock, fair=False)])
@pytest.mark.parametrize("timeout", [0, 0.2])
def test_a_foreign_key_at_the_locks_name_is_not_overwritten(store, kind, timeout):
    lock = kind(store, "phone")
    key = lock.remote.keys[0]
    store.rpush(key, "something else")
    for call in (lambda: lock.acquire(timeout=timeout), lock.owner):
        with pytest.raises(LockError, match="holds something else") as caught:
            call()
        assert not hasattr(caught.value, "__notes__"), "it is said once"
    assert store.lrange(key, 0, -1) == [b"something else"]
    store.delete(key)
    lock.acquire(timeout=0).release()


def test_a_foreign_value_in_place_of_the_fence_is_named(store):
    lock = RedisLock(store, "phone")
    lease = lock.acquire()
    fence = lock.remote.keys[1]
    store.set(fence, "abc")
    store.delete(lock.remote.keys[0])
    for call in (lease.release, lock.acquire):
        with pytest.raises(LockError, match=f"{fence} holds abc.*: delete it"):
            call()
    assert store.keys() == [fence.encode()], "nobody queues for it"
    store.delete(fence)
    lock.acquire().release()


def test_a_foreign_value_at_the_locks_name_has_a_readable_owner(store):
    """As python-redis-lock's ids were once, which are no text."""
    store.set("lock:{phone}", b"\xd6{\xff")
    assert RedisLock(store, "phone").owner() == "\\xd6{\\xff"
    assert status_of(RedisLock(store, "phone")) == LockStatus("\\xd6{\\xff", 0, 0.0, ())
    with pytest.raises(LockTimeout):
        RedisLock(store, "phone").acquire(timeout=0)


@pytest.mark.parametrize(
    ("lease", "max_hold"),
    [(0, None), (-1, None), (10, 0), (inf, None), (nan, None), (10, nan), (1e300, None)],
)
def test_a_lease_without_length_is_refused(store, lease, max_hold):
    with pytest.raises(ValueError, match="above zero"):
        RedisLock(store, "phone", lease=lease, max_hold=max_hold)


def test_a_handed_over_lease_counts_from_the_hand_over_not_from_the_wake_up(store):
    """A process that is paused after its predecessor let go must not trust the lease for longer."""
    holder = RedisLock(store, "phone").acquire()
    lock = RedisLock(store, "phone", lease=1, renew=False)

    @on_pop(lock)
    def slow_pop(pop, key, seconds):
        holder.release()
        handed_over = time.monotonic()
        eventually(lambda: time.monotonic() > handed_over + 0.4)
        return pop(key, seconds)

    lease = lock.acquire(timeout=10)
    left = store.pttl("lock:{phone}") / 1000
    assert lease.remaining() <= min(0.6, left + 0.005)
    lease.release()


def test_a_hand_over_that_expired_before_its_wake_up_grants_nothing(store):
    holder = RedisLock(store, "phone").acquire()
    lock = RedisLock(store, "phone", lease=0.2, renew=False)
    handed_over: list[bytes] = []

    @on_pop(lock)
    def too_slow_once(pop, key, seconds):
        if handed_over:
            return pop(key, seconds)
        holder.release()
        handed_over.append(store.get("lock:{phone}:fence"))
        message = pop(key, seconds)
        eventually(lambda: not store.exists("lock:{phone}"))
        return message

    lease = lock.acquire(timeout=10)
    assert fence(lease) > int(handed_over[0]) > fence(holder)
    lease.release()


def test_acquire_never_returns_a_lease_that_expired_before_its_answer(valkey):
    lock = RedisLock(valkey, "phone", lease=0.3, renew=False)
    before_answer(lock, lambda: time.sleep(0.6))
    with lock.acquire(timeout=5) as lease:
        left = valkey.pttl("lock:{phone}") / 1000
        assert 0 < lease.remaining() <= left + 0.005


def test_a_grant_that_came_too_late_is_released(valkey):
    lock = RedisLock(valkey, "phone", lease=60, renew=False)
    lock.lease_seconds = 0.3
    before_answer(lock, lambda: time.sleep(0.3))
    with pytest.raises(LockTimeout):
        lock.acquire(timeout=0)
    assert lock.owner() is None


def test_a_grant_that_is_asked_for_again_restarts_its_lease(valkey):
    """The client counts it from the second request, because the first had no answer."""
    lock = RedisLock(valkey, "phone")
    request = (lock.new_holder(), "10000", "f", "1")
    ask(lock, lock.scripts.acquire, *request)
    valkey.pexpire(lock.remote.keys[0], 1000)
    assert ask(lock, lock.scripts.acquire, *request)[0]
    assert valkey.pttl(lock.remote.keys[0]) > 9000
