"""The queue of a lock: waiters and heirs that die, are paused, revoked or cancelled."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest
from redis import Redis

from locking import Lease, LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.tests.helpers import Interrupted, Task, ask, eventually, on_pop


def die_waiting(lock: RedisLock) -> None:
    """Leave what a waiter leaves that was killed between two of its commands."""
    answer = ask(lock, lock.scripts.acquire, lock.new_holder(), "10000", "f", "1")
    assert not answer[0]


@pytest.mark.parametrize("dead", [1, 60])
def test_a_living_waiter_behind_dead_ones_enters_long_before_their_leases_end(valkey, dead):
    holder = RedisLock(valkey, "phone").acquire()
    for _ in range(dead):
        die_waiting(RedisLock(valkey, "phone"))
    heir = Task(lambda: RedisLock(valkey, "phone").acquire(timeout=30))
    eventually(lambda: RedisLock(valkey, "phone").waiters() == dead + 1)
    holder.release()
    heir.result(within=5).release()  # each of them has a lease of ten seconds


def test_redisson_3004_and_6150_ghosts_stay_in_the_fair_queue(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    with lock:
        for _ in range(2):
            die_waiting(lock)
        heir = Task(lambda: RedisLock(valkey, "phone").acquire(timeout=90).release())
        eventually(lambda: lock.waiters() == 3)
        eventually(lambda: lock.waiters() == 1)
    heir.result()
    assert valkey.keys() == [b"lock:{phone}:fence"]


def test_an_heir_that_was_passed_over_neither_enters_nor_loses_its_place(valkey: Redis):
    """It is paused before it reads its grant; meanwhile the next one gets the lock."""
    holder = RedisLock(valkey, "phone").acquire()
    slow, woken = RedisLock(valkey, "phone"), threading.Event()

    @on_pop(slow)
    def wait_for_the_test(pop, key, seconds):
        return pop(key, seconds) if woken.wait(20) else None

    paused = Task(lambda: slow.acquire(timeout=60))
    eventually(lambda: slow.waiters() == 1)
    others = [Task(lambda: RedisLock(valkey, "phone").acquire(timeout=60)) for _ in range(2)]
    eventually(lambda: slow.waiters() == 3)
    holder.release()
    eventually(lambda: any(not each.is_alive() for each in others))
    woken.set()
    second = next(each for each in others if not each.is_alive()).result()
    third = next(each for each in others if each.is_alive())
    eventually(lambda: slow.waiters() == 2)
    eventually(lambda: not valkey.keys("*:wake:*"))  # it has read that it must ask again
    assert paused.is_alive()
    second.release()
    first = paused.result()
    assert third.is_alive()
    first.release()
    third.result().release()


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read before"])
def test_an_evicted_heir_does_not_enter_by_an_old_message(valkey: Redis, read: bool):
    """It is revoked before it looks at its grant, asks, is told no, and then looks."""
    holder, heir = RedisLock(valkey, "phone").acquire(), RedisLock(valkey, "phone")
    others, messages = list[Lease](), list[bytes | None]()

    @on_pop(heir)
    def revoked_before_it_looks(pop, key, seconds):
        if others:
            return messages.pop() if messages else pop(key, seconds)
        holder.release()
        if read:
            messages.append(pop(key, seconds))
        heir.force_release("the test wants it")
        assert not valkey.exists(key)
        others.append(RedisLock(valkey, "phone").acquire(timeout=5))
        return None  # the slice is over, and it asks again

    with pytest.raises(LockTimeout):
        heir.acquire(timeout=1)
    others[0].release()


def test_a_revoked_lock_is_the_next_waiters_at_once(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    lease = lock.acquire()
    die_waiting(lock)
    assert lock.waiters() == 1
    assert lock.force_release("the test wants it")
    assert (lock.waiters(), bool(lock.owner())) == (0, True)
    with pytest.raises(LockLost):
        lease.release()


def test_a_queue_in_which_an_heir_was_put_back_expires(valkey: Redis):
    """Even if it is the only one in it, and nobody comes again."""
    lock = RedisLock(valkey, "phone")
    lease = lock.acquire()
    die_waiting(lock)
    lease.release()
    queue = lock.remote.keys[2]

    def put_back() -> bool:
        with pytest.raises(LockTimeout):
            RedisLock(valkey, "phone").acquire(timeout=0)
        return bool(valkey.exists(queue))

    eventually(put_back)
    assert valkey.pttl(queue) > 0
    assert valkey.pttl(lock.remote.keys[3]) > 0


def test_python_redis_lock_timeout_does_not_end_under_repeated_wake_ups(valkey: Redis):
    lock, wake_in_vain = RedisLock(valkey, "phone"), Mock(return_value=b"0:0")
    on_pop(lock)(wake_in_vain)
    with RedisLock(valkey, "phone"), pytest.raises(LockTimeout):
        Task(lock.acquire, timeout=0.3).result(within=20)
    assert wake_in_vain.call_count > 2


def test_kazoo_760_cancelled_waiter_leaves_its_node(valkey: Redis):
    holder, lock = RedisLock(valkey, "phone").acquire(), RedisLock(valkey, "phone")

    @on_pop(lock)
    def granted_and_cancelled(*_):
        holder.release()  # the lock is handed over, and the waiter dies before it knows
        raise Interrupted

    with pytest.raises(Interrupted):
        lock.acquire()
    assert valkey.keys() == [b"lock:{phone}:fence"]
