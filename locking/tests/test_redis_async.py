"""The asyncio twin of the production lock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from locking import LockError, LockLost, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_protocol import MUTEX
from locking.backends.redis_shared import (
    AsyncRedisReadWriteLock,
    AsyncRedisSemaphore,
    RedisReadWriteLock,
    RedisSemaphore,
)
from locking.queue import AsyncDelayQueue, DelayQueue
from locking.redis_client import connect_async
from locking.tests.helpers import Task, eventually
from locking.tests.proxy import Proxy, Way
from locking.tests.servers import RedisLike, free_port

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


@asynccontextmanager
async def client_of(server: RedisLike) -> AsyncIterator[Redis]:
    client = connect_async(server.endpoint)
    assert isinstance(client, Redis)
    await client.flushall()
    try:
        yield client
    finally:
        await client.aclose()


def run(server: RedisLike, scenario):
    async def main():
        async with client_of(server) as client:
            return await asyncio.wait_for(scenario(client), 30)

    return asyncio.run(main())


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

    assert run(store_server, scenario) == list(range(10))


async def _is(awaitable, value) -> bool:
    return bool(await awaitable == value)


def test_more_tasks_may_wait_than_the_pool_has_connections(store_server):
    async def scenario(client: Redis) -> None:
        client.connection_pool.max_connections = 4
        lock = AsyncRedisLock(client, "phone")
        count = 0

        async def enter() -> None:
            nonlocal count
            async with await AsyncRedisLock(client, "phone").acquire(timeout=20):
                count += 1

        async with await lock.acquire():
            tasks = [asyncio.create_task(enter()) for _ in range(20)]
            await until(lambda: _is(lock.waiters(), 20))
        await asyncio.gather(*tasks)
        assert count == 20

    run(store_server, scenario)


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

    assert run(store_server, scenario) == 1


def test_a_cancelled_task_leaves_the_queue(store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisLock(client, "phone")
        async with await lock.acquire():
            waiting = asyncio.create_task(AsyncRedisLock(client, "phone").acquire())
            await until(lambda: _is(lock.waiters(), 1))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await lock.waiters() == 0
        assert await client.keys() == [b"lock:{phone}:fence"]

    run(store_server, scenario)


def test_a_reentrant_handle_may_enter_again_and_another_may_not(store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisLock(client, "phone", reentrant=True, owner="till 7")
        async with await lock.acquire() as outer:
            async with await lock.acquire(timeout=0) as inner:
                assert inner.token == outer.token
            outer.check()
            with pytest.raises(LockTimeout):
                await AsyncRedisLock(client, "phone").acquire(timeout=0)
        assert await lock.owner() is None

    run(store_server, scenario)


def test_a_living_task_keeps_the_lock_past_its_lease(store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisLock(client, "phone", lease=0.3)
        async with await lock.acquire() as lease:
            assert not await lease.wait_lost(0.7)
            lease.check()
            with pytest.raises(LockTimeout):
                await AsyncRedisLock(client, "phone").acquire(timeout=0)

    run(store_server, scenario)


def test_a_lock_that_was_taken_away_is_lost(store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisLock(client, "phone", lease=0.3)
        lease = await lock.acquire()
        assert await lock.force_release("the test wants it")
        assert await lease.wait_lost(5)
        with pytest.raises(LockLost):
            await lease.release()

    run(store_server, scenario)


def test_a_lease_that_its_owner_forgot_ends(store_server):
    async def scenario(client: Redis) -> None:
        lock = AsyncRedisLock(client, "phone", lease=0.3)

        async def forget() -> None:
            await lock.acquire()

        await asyncio.create_task(forget())
        async with await AsyncRedisLock(client, "phone").acquire(timeout=5):
            pass

    run(store_server, scenario)


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

    run(store_server, scenario)


def test_an_extension_does_not_exceed_max_hold(store_server):
    async def scenario(client: Redis) -> None:
        async with await AsyncRedisLock(client, "phone", max_hold=20).acquire() as lease:
            await lease.extend(90)
            assert 19 < lease.remaining() <= 20
            assert await client.pttl("lock:{phone}") <= 20_000
            for seconds in (0, float("inf")):
                with pytest.raises(ValueError, match="at least 1 ms"):
                    await lease.extend(seconds)
            lease.check()

    run(store_server, scenario)


def test_a_foreign_key_at_the_name_of_a_tasks_lock_is_not_overwritten(store_server):
    async def scenario(client: Redis) -> None:
        await client.hset("lock:{phone}", "size", "6")
        with pytest.raises(LockError, match="holds something else"):
            await AsyncRedisLock(client, "phone").acquire(timeout=0.2)
        assert await client.hgetall("lock:{phone}") == {b"size": b"6"}

    run(store_server, scenario)


def test_an_unreachable_server_raises_lock_unavailable():
    async def scenario() -> None:
        client = connect_async(f"redis://127.0.0.1:{free_port()}/0")
        with pytest.raises(LockUnavailable):
            await AsyncRedisLock(client, "phone").acquire(timeout=5)
        await client.aclose()

    asyncio.run(scenario())


def test_a_blocking_waiter_is_woken_by_a_task(store, store_server):
    async def scenario(client: Redis) -> None:
        lease = await AsyncRedisLock(client, "phone").acquire()
        heir = Task(lambda: RedisLock(store, "phone").acquire(timeout=20).token)
        await asyncio.to_thread(eventually, lambda: RedisLock(store, "phone").waiters() == 1)
        await lease.release()
        assert await asyncio.to_thread(heir.result) > lease.token

    run(store_server, scenario)


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def test_an_answer_after_the_lease_has_expired_grants_no_lease(store, store_server):
    """With time left, the task asks again; without, it gives back what it may hold."""

    async def scenario(client: Redis) -> None:
        await (await AsyncRedisLock(client, "warm").acquire()).release()
        with Proxy(store_server.port) as proxy:
            slow = connect_async(proxy.url, timeout=5)
            for patience in (5, 0):
                proxy.hold_up(MUTEX.acquire.sha, Way.REQUEST, until=_after(1.05))
                acquiring = AsyncRedisLock(slow, "phone", lease=1).acquire(timeout=patience)
                if patience:
                    lease = await acquiring
                    assert lease.remaining() > 0
                    await lease.release()
                else:
                    with pytest.raises(LockTimeout):
                        await acquiring
                assert await AsyncRedisLock(client, "phone").owner() is None
            await slow.aclose()

    run(store_server, scenario)


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

    run(store_server, scenario)


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

    run(store_server, scenario)
