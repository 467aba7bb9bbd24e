"""Whose lease is whose: of a `with` block, of threads and tasks that end, of the caller itself."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref

import pytest
import redis.asyncio
from redis import Redis

from locking import LockLost, LockNotHeld, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_shared import AsyncRedisSemaphore, RedisSemaphore
from locking.tests.helpers import Task, eventually, fence, run
from locking.tests.servers import Valkey

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")

ENDS = pytest.mark.parametrize("ends", [{"renew": False}, {"max_hold": 0.3}], ids=str)


async def test_a_block_releases_its_own_permit_and_not_the_latest(valkey: Redis, valkey_async):
    semaphore = RedisSemaphore(valkey, "tills", 2)
    with semaphore as own:
        kept = semaphore.acquire()
    assert own.released
    assert not kept.released
    kept.release()

    tills = AsyncRedisSemaphore(valkey_async, "tills", 2)
    async with tills as mine:
        other = await tills.acquire()
    assert mine.released
    assert not other.released
    await other.release()


async def test_an_early_release_does_not_hide_the_error_of_the_body(valkey: Redis, valkey_async):
    lock, other = RedisLock(valkey, "phone"), AsyncRedisLock(valkey_async, "phone")

    def fail() -> None:
        with lock:
            lock.release()
            raise ValueError("the body's")

    async def fail_in_a_task() -> None:
        async with other:
            await other.release()
            raise ValueError("the body's")

    with pytest.raises(ValueError, match="the body's") as caught:
        fail()
    assert "LockNotHeld" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="the body's") as caught:
        await fail_in_a_task()
    assert "LockNotHeld" in caught.value.__notes__[0]
    with pytest.raises(LockNotHeld), lock:
        lock.release()


def test_a_handle_forgets_the_leases_of_threads_that_have_ended(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    lease = Task(lambda: weakref.ref(lock.acquire())).result()
    gc.collect()
    eventually(lambda: lease() is None, within=5)


async def test_a_handle_forgets_the_leases_of_tasks_that_have_ended(valkey_async):
    lock = AsyncRedisLock(valkey_async, "phone")

    async def forget() -> weakref.ref[object]:
        return weakref.ref(await lock.acquire())

    lease = await asyncio.create_task(forget())
    await asyncio.sleep(0.01)
    gc.collect()
    assert lease() is None


@ENDS
def test_a_thread_may_wait_for_its_own_lease_if_that_ends(valkey: Redis, ends):
    first = RedisLock(valkey, "phone", lease=0.3, **ends).acquire()
    with RedisLock(valkey, "phone").acquire() as second:
        assert fence(second) > fence(first)
    with pytest.raises(LockLost):
        first.release()


def test_loops_in_several_threads_wait_and_acquire_at_once(valkey: Redis, valkey_server: Valkey):
    """A waiting task looks for a lease of its own while other loops get and release theirs."""

    def work(number: int) -> None:
        async def scenario(client: redis.asyncio.Redis) -> None:
            leases = []
            for turn in range(60):
                leases.append(await AsyncRedisLock(client, f"{number}-{turn}").acquire())
                with pytest.raises(LockTimeout):
                    await AsyncRedisLock(client, "held").acquire(timeout=0.001)
            for lease in leases:
                await lease.release()

        run(valkey_server, scenario)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with RedisLock(valkey, "held", lease=60):
            for task in [Task(work, number) for number in range(4)]:
                task.result(within=60)
    finally:
        sys.setswitchinterval(interval)
