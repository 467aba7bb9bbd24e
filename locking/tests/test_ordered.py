"""Several locks at once."""

from __future__ import annotations

import pytest
from redis import Redis

from locking import LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_shared import RedisReadWriteLock, RedisSemaphore
from locking.ordered import acquire_all
from locking.redis_client import connect
from locking.tests.helpers import Task
from locking.tests.servers import Valkey


def test_all_locks_are_held_and_all_are_released(valkey: Redis):
    locks = [RedisLock(valkey, name) for name in ("c", "a", "b", "a")]
    with acquire_all(locks, timeout=5) as leases:
        assert list(leases) == ["a", "b", "c"]
        assert all(lock.owner() for lock in locks)
    assert not any(lock.owner() for lock in locks)


def test_clients_that_name_the_locks_in_any_order_do_not_deadlock(valkey: Redis):
    done: list[int] = []

    def work(names: str) -> None:
        for _ in range(30):
            with acquire_all([RedisLock(valkey, name) for name in names], timeout=20):
                done.append(1)

    for task in [Task(work, names) for names in ("abc", "cba", "bca", "ac")]:
        task.result(within=60)
    assert len(done) == 120


def test_when_one_is_not_free_in_time_none_is_kept(valkey: Redis):
    with RedisLock(valkey, "b").acquire():
        locks = [RedisLock(valkey, name) for name in "abc"]
        with pytest.raises(LockTimeout), acquire_all(locks, timeout=0.1):
            pytest.fail("the body must not run")
        assert locks[0].owner() is None
        assert locks[2].owner() is None


def test_the_loss_of_one_lock_is_raised_and_the_others_are_released(valkey: Redis):
    locks = [RedisLock(valkey, name) for name in "ab"]
    with pytest.raises(LockLost), acquire_all(locks):
        locks[1].force_release("for the test")
    assert locks[0].owner() is None


def test_a_lock_and_a_semaphore_of_one_name_are_both_held(valkey: Redis):
    lock, semaphore = RedisLock(valkey, "x"), RedisSemaphore(valkey, "x", 1)
    with acquire_all([lock, RedisLock(valkey, "y"), semaphore]) as leases:
        assert lock.locked()
        assert semaphore.locked()
        assert leases[lock] is lock.lease
        assert leases[semaphore] is semaphore.lease
        assert leases["y"].remaining() > 0
        assert len(leases) == 3


def test_locks_of_one_name_in_two_databases_are_both_held(
    valkey: Redis, valkey_server: Valkey
) -> None:
    with connect(f"{valkey_server.endpoint.rpartition('/')[0]}/1") as other:
        here, there = RedisLock(valkey, "x"), RedisLock(other, "x")
        with acquire_all([there, here]):
            assert here.locked()
            assert there.locked()


@pytest.mark.parametrize("order", [("write", "read"), ("read", "write")])
def test_both_locks_of_a_pair_let_no_other_reader_in(valkey: Redis, order):
    pair = RedisReadWriteLock(valkey, "x")
    with acquire_all([getattr(pair, half) for half in order]), pytest.raises(LockTimeout):
        RedisReadWriteLock(valkey, "x").read.acquire(timeout=0)


def test_a_semaphore_is_held_with_the_most_permits_that_are_asked_for(valkey: Redis):
    one, two = RedisSemaphore(valkey, "x", 2), RedisSemaphore(valkey, "x", 2, take=2)
    with acquire_all([two, one], timeout=5), pytest.raises(LockTimeout):
        RedisSemaphore(valkey, "x", 2).acquire(timeout=0)
