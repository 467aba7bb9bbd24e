"""Work under a lock: `run_exclusively` and its decorator."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from redis import Redis

from locking import LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.exclusive import exclusively, run_exclusively
from locking.terms import Clock
from locking.tests.helpers import Task


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
