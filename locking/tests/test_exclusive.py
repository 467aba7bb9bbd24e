"""Work under a lock: `run_exclusively`, its decorator, and several locks at once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from redis import Redis

from locking import LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_shared import RedisReadWriteLock, RedisSemaphore
from locking.exclusive import acquire_all, acquire_all_async, exclusively, run_exclusively
from locking.terms import Clock
from locking.tests.helpers import Task
from locking.tests.servers import Valkey


def test_the_function_runs_inside_the_lock_and_its_result_comes_back(valkey: Redis):
    lock = RedisLock(valkey, "restock", owner="me")
    assert run_exclusively(lock, lock.owner) == "me"
    assert lock.owner() is None
    with pytest.raises(ZeroDivisionError):
        run_exclusively(lock, lambda: 1 // 0)
    assert lock.owner() is None


@pytest.mark.parametrize(("queue", "naps"), [(True, []), (False, [0.2, 0.2, 0.1])])
def test_the_function_does_not_run_if_the_lock_is_not_free_in_time(valkey: Redis, queue, naps):
    """Without queueing, the lock is tried every fifth of a second."""
    now, seen, ran = [0.0], [], []

    def nap(seconds: float) -> None:
        seen.append(round(seconds, 3))
        now[0] += seconds

    clock = Clock(monotonic=lambda: now[0], sleep=nap)
    lock = RedisLock(valkey, "restock")
    with RedisLock(valkey, "restock"), pytest.raises(LockTimeout):
        run_exclusively(lock, lambda: ran.append(1), timeout=0.5, queue=queue, clock=clock)
    assert (seen, ran) == (naps, [])


def test_the_result_of_a_function_that_lost_the_lock_is_not_returned(valkey: Redis):
    with pytest.raises(LockLost):
        run_exclusively(RedisLock(valkey, "restock"), valkey.flushall)


def test_a_decorated_function_runs_one_at_a_time_for_each_thing(valkey: Redis):
    inside: list[int] = []
    worst: list[int] = []

    @exclusively(lambda item: RedisLock(valkey, f"restock:{item}"), timeout=20)
    def restock(item: int) -> int:
        """Put stock back."""
        inside.append(item)
        worst.append(inside.count(item))
        inside.remove(item)
        return item

    tasks = [Task(restock, number % 2) for number in range(20)]
    assert [task.result() for task in tasks] == [0, 1] * 10
    assert max(worst) == 1
    assert restock.__name__ == "restock"
    assert restock.__doc__ == "Put stock back."


async def test_a_coroutine_function_runs_inside_the_lock(valkey_async):
    probe = AsyncRedisLock(valkey_async, "nightly")

    @exclusively(AsyncRedisLock(valkey_async, "nightly", owner="me"), timeout=20)
    async def nightly(number: int) -> str | None:
        await asyncio.sleep(0)
        return await probe.owner()

    assert await nightly(1) == "me"
    assert await probe.owner() is None


def generator():
    yield 1


async def async_generator():
    yield 1


async def coroutine() -> None: ...


class CallableCoroutine:
    async def __call__(self) -> None: ...


def plain() -> None: ...


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, coroutine, partial(coroutine), CallableCoroutine()],
)
def test_a_function_whose_body_runs_later_is_refused_by_a_blocking_lock(valkey: Redis, function):
    lock = RedisLock(valkey, "restock")
    with pytest.raises(TypeError):
        exclusively(lock)(function)
    with pytest.raises(TypeError):
        exclusively(lock)(lambda: function())()
    assert not lock.locked()
    with pytest.raises(TypeError, match="an asyncio lock"):  # a lock chosen at the call
        asyncio.run(exclusively(lambda: lock)(coroutine)())


def test_a_blocking_function_and_a_generator_are_refused_by_an_asyncio_lock():
    lock = AsyncRedisLock("redis://127.0.0.1:1", "restock")
    for function in (plain, generator, async_generator):
        with pytest.raises(TypeError):
            exclusively(lock)(function)
    with pytest.raises(TypeError, match="a blocking lock"):
        run_exclusively(lock, plain)  # type: ignore[arg-type]


def test_locks_of_the_other_kind_are_refused_and_none_is_held(valkey: Redis):
    lock: Any = RedisLock(valkey, "phone")
    other: Any = AsyncRedisLock("redis://127.0.0.1:1", "phone")
    with pytest.raises(TypeError, match="a blocking lock, not <AsyncRedisLock"):
        acquire_all([lock, other]).__enter__()
    with pytest.raises(TypeError, match="an asyncio lock, not <RedisLock"):
        asyncio.run(acquire_all_async([lock]).__aenter__())
    assert not lock.locked()


# -- several locks at once


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


def test_locks_of_one_name_in_two_databases_are_both_held(valkey: Redis, valkey_server: Valkey):
    here = RedisLock(valkey, "x")
    there = RedisLock(f"{valkey_server.endpoint.removesuffix('0')}1", "x")
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
