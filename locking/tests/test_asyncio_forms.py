"""What there is for threads there is for asyncio: several locks, Redlock, replicas, status."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
import redis.asyncio
from redis import Redis

from locking import LockLost, LockTimeout, LockUnavailable, acquire_all_async
from locking.backends.in_thread import ThreadLock
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_shared import AsyncRedisReadWriteLock, AsyncRedisSemaphore
from locking.backends.redis_status import status_of
from locking.backends.redlock import AsyncRedLock, RedLock, redlock_clients
from locking.tests.helpers import run
from locking.tests.servers import Valkey


def test_tasks_that_name_locks_in_any_order_do_not_deadlock(valkey: Redis, valkey_server: Valkey):
    async def scenario(client: redis.asyncio.Redis) -> None:
        done = []

        async def work(names: str) -> None:
            for _ in range(10):
                locks = [AsyncRedisLock(client, name) for name in names]
                async with acquire_all_async(locks, timeout=40) as leases:
                    assert sorted(leases) == sorted(set(names))
                    done.append(1)

        await asyncio.gather(*(work(names) for names in ("abc", "cba", "bca", "ac")))
        assert len(done) == 40

    run(valkey_server, scenario)


def test_tasks_hold_all_locks_of_one_name_or_none(valkey: Redis, valkey_server: Valkey):
    async def scenario(client: redis.asyncio.Redis) -> None:
        lock, pair = AsyncRedisLock(client, "x"), AsyncRedisReadWriteLock(client, "x")
        permits = AsyncRedisSemaphore(client, "x", 1)
        async with acquire_all_async([lock, permits, pair.write, pair.read]) as leases:
            assert leases[lock].remaining() > 0
            assert leases[permits] is permits.lease
            assert leases[pair.read] is leases[pair.write]
        with RedisLock(valkey, "x"):
            with pytest.raises(LockTimeout):
                async with acquire_all_async([permits, lock], timeout=0.1):
                    pytest.fail("the body must not run")
            assert not await permits.locked()

    run(valkey_server, scenario)


def test_the_status_is_read_by_tasks(valkey: Redis, valkey_server: Valkey):
    async def scenario(client: redis.asyncio.Redis) -> None:
        lock = AsyncRedisLock(client, "phone", owner="till 7")
        async with lock as lease:
            status = await status_of(lock)
            assert status == status_of(RedisLock(valkey, "phone")) or status.remaining > 0
            assert (status.owner, status.token) == ("till 7", lease.token)
        assert (await status_of(lock)).owner is None

    run(valkey_server, scenario)


def test_a_grant_that_no_replica_has_is_given_back(valkey: Redis, valkey_server: Valkey):
    async def scenario(client: redis.asyncio.Redis) -> None:
        lock = AsyncRedisLock(client, "phone", replicas=1, replica_timeout=0.05)
        with pytest.raises(LockUnavailable, match="0 of 1 replicas"):
            await lock.acquire()
        assert not await lock.locked()

    run(valkey_server, scenario)


def test_redlock_for_tasks_and_for_threads_exclude_each_other():
    with ExitStack() as stack:
        servers = [stack.enter_context(Valkey()) for _ in range(3)]
        urls = [server.endpoint for server in servers]
        threads = RedLock(redlock_clients(urls), "phone", lease=5)

        async def scenario() -> None:
            clients = redlock_clients(urls)
            lock = AsyncRedLock(clients, "phone", lease=5)
            async with lock as lease:
                await lease.extend(9)
                assert lease.remaining() > 8
                assert await lock.owner() == lease.inner.grant.rpartition("|")[0] == threads.owner()
                with pytest.raises(LockTimeout):
                    threads.acquire(timeout=0)
                with pytest.raises(LockTimeout, match="'phone'"):
                    await AsyncRedLock(clients, "phone").acquire(timeout=0.05)
            assert not threads.locked()
            with threads:
                waiting = asyncio.create_task(lock.acquire())
                await asyncio.sleep(0.1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            lease = await asyncio.wait_for(lock.acquire(), 5)
            servers[0].kill()
            await lease.release()
            servers[1].kill()
            with pytest.raises(LockUnavailable):
                await lock.acquire(timeout=0)

        asyncio.run(scenario())


def test_any_lock_serves_tasks_through_threads(valkey: Redis):
    async def scenario() -> None:
        lock = ThreadLock(RedisLock(valkey, "phone", lease=0.4))
        async with lock as lease:
            assert lock.lease is lease
            assert await lock.locked()
            assert await asyncio.to_thread(lease.lost.wait, 0.8) is False  # it is renewed
            await lease.extend(30)
            with pytest.raises(LockTimeout):
                await ThreadLock(RedisLock(valkey, "phone")).acquire(timeout=0.05)
            waiting = asyncio.create_task(ThreadLock(RedisLock(valkey, "phone")).acquire())
            while not await lock.waiters():
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        while await lock.owner() is not None:  # what the cancelled one got is given back
            await asyncio.sleep(0.01)
        lost = await lock.acquire()
        assert await lock.force_release("the test wants it")
        with pytest.raises(LockLost):
            await lost.release()

    asyncio.run(asyncio.wait_for(scenario(), 60))
