"""The asyncio twin of the production lock."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from locking import LockError, LockLost, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_shared import (
    AsyncRedisReadWriteLock,
    AsyncRedisSemaphore,
    RedisReadWriteLock,
    RedisSemaphore,
)
from locking.queue import AsyncDelayQueue, DelayQueue
from locking.redis_client import connect_async
from locking.tests.helpers import Task, run
from locking.tests.servers import free_port

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.005)


def test_only_one_of_many_tasks_is_inside_and_they_enter_in_order(store_server):
    async def scenario(client: Redis) -> list[int]:
        order: list[int] = []
        inside = 0

        async def enter(number: int) -> None:
            nonlocal inside
            async with await AsyncRedisLock(client, "phone").acquire(timeout=20):
                inside += 1
                assert inside == 1
                order.append(number)
                await asyncio.sleep(0)
                inside -= 1

        lock = AsyncRedisLock(client, "phone")
        tasks = []
        async with await lock.acquire():
            for number in range(10):
                tasks.append(asyncio.create_task(enter(number)))
                await until(lambda: _is(lock.waiters(), len(tasks)))
        await asyncio.gather(*tasks)
        assert await client.keys() == [b"lock:{phone}:fence"]
        return order

    assert run(store_server, scenario, flush=True) == list(range(10))


async def _is(awaitable, value) -> bool:
    return bool(await awaitable == value)


def test_tasks_and_threads_exclude_each_other_under_the_same_name(store, store_server):
    async def scenario(client: Redis) -> int:
        async with await AsyncRedisLock(client, "phone", owner="task").acquire() as lease:
            blocking = RedisLock(store, "phone")
            assert blocking.owner() == "task"
            heir = Task(lambda: blocking.acquire(timeout=20))
            await until(lambda: _is(AsyncRedisLock(client, "phone").waiters(), 1))
        following = await asyncio.to_thread(heir.result)
        assert following.token > lease.token
        following.release()
        return 1

    assert run(store_server, scenario, flush=True) == 1


def test_a_lock_that_was_taken_away_is_lost(store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisLock(client, "phone", lease=0.3)
        lease = await lock.acquire()
        assert await lock.force_release("the test wants it")
        assert await lease.wait_lost(5)
        with pytest.raises(LockLost):
            await lease.release()

    run(store_server, scenario, flush=True)


def test_extend_moves_the_end_of_the_lease(store_server):
    async def scenario(client: Redis) -> None:
        async with await AsyncRedisLock(client, "phone", lease=1).acquire() as lease:
            await lease.extend(30)
            assert 29 < lease.remaining() <= 30
            await client.delete("lock:{phone}")
            with pytest.raises(LockLost):
                await lease.extend(30)
            assert not await client.exists("lock:{phone}")
            with pytest.raises(LockLost):
                await lease.release()

    run(store_server, scenario, flush=True)


def test_an_unreachable_server_raises_lock_unavailable():
    async def scenario() -> None:
        client = connect_async(f"redis://127.0.0.1:{free_port()}/0")
        with pytest.raises(LockUnavailable):
            await AsyncRedisLock(client, "phone").acquire(timeout=5)
        await client.aclose()

    asyncio.run(scenario())


def test_tasks_and_threads_share_a_read_write_lock_and_a_semaphore(store, store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisReadWriteLock(client, "catalogue")
        threads = RedisReadWriteLock(store, "catalogue")
        async with lock.read, await asyncio.create_task(lock.read.acquire(timeout=0)):
            with threads.read.acquire(timeout=0), pytest.raises(LockTimeout):
                threads.write.acquire(timeout=0)
            with pytest.raises(LockError, match="itself holds"):
                await lock.write.acquire()
        async with lock.write:
            for half in (threads.read, threads.write):
                with pytest.raises(LockTimeout):
                    half.acquire(timeout=0)
        semaphore = AsyncRedisSemaphore(client, "pool", 2)
        async with semaphore, semaphore:
            with pytest.raises(LockTimeout):
                RedisSemaphore(store, "pool", 2).acquire(timeout=0)
            waiting = asyncio.create_task(semaphore.acquire(timeout=20))
            await until(lambda: _is(semaphore.waiters(), 1))
        await (await waiting).release()
        assert not await semaphore.locked()

    run(store_server, scenario, flush=True)


def test_a_delay_queue_for_asyncio_is_the_same_queue(store, store_server):
    async def scenario(client: Redis) -> None:
        queue, other = AsyncDelayQueue(client, "orders"), DelayQueue(store, "orders")
        assert await queue.enqueue(["a", "b", "c"], -1) == 3
        assert await queue.enqueue([], 0) == await queue.acknowledge([]) == 0
        assert [due.id for due in await queue.top(5)] == ["a", "b", "c"]
        [first] = await queue.pop(1)
        assert (await queue.waiting(), await queue.in_flight()) == (len(other), 1) == (2, 1)
        assert await queue.next_due() == other.next_due()
        assert await queue.acknowledge([first]) == 1
        [second] = other.top(1)
        assert await queue.dequeue(second.id, second.score)
        assert await queue.discard(["c"]) == 1
        assert await queue.next_due() is None

    run(store_server, scenario, flush=True)
