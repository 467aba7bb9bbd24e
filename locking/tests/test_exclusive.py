"""Work under a lock: `run_exclusively` and its decorator."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from redis import Redis

from locking import LockLost, LockTimeout
from locking.exclusive import exclusively, run_exclusively
from locking.redis_lock import RedisLock
from locking.redis_lock_async import AsyncRedisLock
from locking.tests.helpers import Task, eventually


def test_exclusive_runs_the_function_inside_the_lock(valkey: Redis):
    lock = RedisLock(valkey, "restock", owner="me")
    assert run_exclusively(lock, lock.owner) == "me"
    assert lock.owner() is None
    with pytest.raises(ZeroDivisionError):
        run_exclusively(lock, lambda: 1 // 0)
    assert lock.owner() is None


@pytest.mark.parametrize("queue", [True, False])
def test_function_does_not_run_if_the_lock_is_taken(valkey: Redis, queue: bool):
    ran: list[int] = []
    lock = RedisLock(valkey, "restock")
    with RedisLock(valkey, "restock"), pytest.raises(LockTimeout):
        run_exclusively(lock, lambda: ran.append(1), timeout=0.3, queue=queue)
    assert ran == []


async def test_decorator_keeps_its_time_limit(valkey: Redis, valkey_async):
    @exclusively(RedisLock(valkey, "restock"), timeout=0.05)
    def restock() -> None:
        pytest.fail("the lock is taken")

    @exclusively(AsyncRedisLock(valkey_async, "restock"), timeout=0.05)
    async def restock_later() -> None:
        pytest.fail("the lock is taken")

    with RedisLock(valkey, "restock"):
        with pytest.raises(LockTimeout):
            await asyncio.to_thread(Task(restock).result)
        with pytest.raises(LockTimeout):
            await asyncio.wait_for(restock_later(), 20)


def test_function_without_a_place_in_the_queue_tries_again(valkey: Redis):
    lease = RedisLock(valkey, "restock").acquire()
    lock = RedisLock(valkey, "restock", owner="me")
    waiting = Task(run_exclusively, lock, lock.owner, timeout=20, queue=False)
    eventually(lambda: valkey.info("commandstats")["cmdstat_evalsha"]["calls"] >= 4)
    assert lock.waiters() == 0
    lease.release()
    assert waiting.result() == "me"


def test_exclusive_returns_no_result_after_the_lock_was_lost(valkey: Redis):
    with pytest.raises(LockLost):
        run_exclusively(RedisLock(valkey, "restock"), valkey.flushall)


def test_exclusive_function_runs_one_at_a_time_per_name(valkey: Redis):
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


async def test_exclusive_coroutine_runs_inside_the_lock(valkey_async):
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
def test_exclusive_of_a_blocking_lock_refuses_deferred_bodies(valkey: Redis, function):
    lock = RedisLock(valkey, "restock")
    with pytest.raises(TypeError):
        exclusively(lock)(function)
    with pytest.raises(TypeError):
        exclusively(lock)(lambda: function())()
    assert not lock.locked()
    with pytest.raises(TypeError, match="an asyncio lock"):  # a lock chosen at the call
        asyncio.run(exclusively(lambda: lock)(coroutine)())


def test_exclusive_of_an_asyncio_lock_refuses_blocking_functions(valkey_async):
    lock = AsyncRedisLock(valkey_async, "restock")
    for function in (plain, generator, async_generator):
        with pytest.raises(TypeError):
            exclusively(lock)(function)
    with pytest.raises(TypeError, match="a blocking lock"):
        run_exclusively(lock, plain)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [classmethod, staticmethod, property])
def test_decorator_refuses_what_must_stand_above_it(valkey: Redis, kind):
    with pytest.raises(TypeError, match=f"below @{kind.__name__}"):
        exclusively(RedisLock(valkey, "restock"))(kind(plain))
    with pytest.raises(TypeError, match="decorates a function"):
        exclusively(RedisLock(valkey, "restock"))(7)  # type: ignore[arg-type]


def test_decorated_method_below_classmethod_works(valkey: Redis):
    class Shop:
        @classmethod
        @exclusively(RedisLock(valkey, "restock"))
        def restock(cls) -> str:
            return cls.__name__

    assert Shop.restock() == "Shop"


async def test_result_that_runs_later_is_refused(valkey: Redis, valkey_async):
    async def body():
        pytest.fail("it ran after the release")

    @exclusively(RedisLock(valkey, "restock"))
    def task():
        return asyncio.ensure_future(body())

    @exclusively(AsyncRedisLock(valkey_async, "nightly"))
    async def stream():
        return async_generator()

    with pytest.raises(TypeError, match="only after the lock is released"):
        task()
    with pytest.raises(TypeError, match="only after the lock is released"):
        await stream()
