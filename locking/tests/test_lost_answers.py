"""Answers that are lost or never come: nothing is done twice, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis import Redis

from locking import LockLost, LockTimeout, LockUnavailable
from locking.redis_lock import ACQUIRE, RELEASE, RENEW, RedisLock, text
from locking.redis_lock_async import AsyncRedisLock
from locking.tests.helpers import Task, eventually, until_renewed

LOCK, FENCE = "lock:{phone}", "lock:{phone}:fence"

# The scripts are known to the server: their hashes are in the requests.
KNOWN = (ACQUIRE, RELEASE, RENEW)


@pytest.fixture(autouse=True)
def known_scripts(store: Redis) -> None:
    for script in KNOWN:
        store.script_load(script.source)


@pytest.mark.parametrize("fault", ["reset", "refuse", "silence"])
def test_redis_py_acquire_fails_while_its_token_holds(
    behind: Any, gate: Any, store: Redis, fault: str
) -> None:
    gate.plan[ACQUIRE.sha] = fault
    with behind.lock().acquire(10) as lease:
        assert gate.done == [fault]
        assert text(store.get(LOCK) or b"").startswith(f"{lease.token}:")
        assert 0 < lease.remaining() <= store.pttl(LOCK) / 1000 + 0.01
    assert not store.exists(LOCK)


@pytest.mark.parametrize("fault", ["reset", "refuse", "silence"])
def test_redis_py_3847_release_whose_answer_is_lost(
    behind: Any, gate: Any, store: Redis, fault: str
) -> None:
    lease = behind.lock().acquire(5)
    gate.plan[RELEASE.sha] = fault
    lease.release()
    assert gate.done == [fault]
    assert lease.released
    assert not store.exists(LOCK)


def test_lost_lease_is_not_taken_for_a_repeated_release(behind: Any, store: Redis) -> None:
    lease = behind.lock().acquire(5)
    store.delete(LOCK)
    with pytest.raises(LockLost):
        lease.release()


def test_release_that_no_server_hears_can_be_repeated(behind: Any, gate: Any, store: Redis) -> None:
    lease = behind.lock().acquire(5)
    gate.plan[RELEASE.sha] = "reset"
    gate.plan[f"{RELEASE.sha}"] = "refuse"

    class Twice(dict[str, str]):
        def pop(self, key: str, default: Any = None) -> Any:
            return self.get(key, default)  # whatever is planned goes on

    gate.plan = Twice(gate.plan)
    with pytest.raises(LockUnavailable):
        lease.release()
    assert not lease.released
    gate.plan = {}
    lease.release()
    assert lease.released
    assert not store.exists(LOCK)


@pytest.mark.parametrize("fault", ["reset", "refuse"])
def test_renewal_whose_answer_is_lost_loses_nothing(
    behind: Any, gate: Any, store: Redis, fault: str
) -> None:
    lease = behind.lock(lease=3).acquire(5)
    gate.plan[RENEW.sha] = fault
    eventually(lambda: gate.done == [fault])
    until_renewed(lease)
    lease.check()
    lease.release()


def test_redisson_5761_wake_up_that_is_lost(behind: Any, gate: Any, store: Redis) -> None:
    """Its grant is found with the next question."""
    holder = RedisLock(store, "phone").acquire()
    waiting = Task(lambda: behind.lock().acquire(20))
    eventually(lambda: store.info("clients")["blocked_clients"] == 1)
    gate.plan["BLPOP"] = "reset"
    holder.release()
    heir = waiting.result(within=15)
    assert heir.token > holder.token
    heir.release()
    eventually(lambda: store.keys() == [FENCE.encode()])


def test_waiter_bears_a_server_that_restarts(own_valkey: Any) -> None:
    with Redis.from_url(own_valkey.endpoint, socket_timeout=2) as client:
        RedisLock(client, "phone", lease=60, renew=False).acquire()
        waiting = Task(lambda: RedisLock(client, "phone").acquire(60))
        eventually(lambda: RedisLock(client, "phone").waiters() == 1)
        own_valkey.kill()
        own_valkey.start()
        waiting.result(within=60).release()


test_waiter_bears_a_server_that_restarts = pytest.mark.filterwarnings(
    "ignore:the lease of lock:ResourceWarning"
)(test_waiter_bears_a_server_that_restarts)


async def test_cancelled_waiter_leaves_nothing(valkey: Redis, valkey_async: Any) -> None:
    """kazoo 760 leaves its node."""
    lock = AsyncRedisLock(valkey_async, "phone")
    async with lock:
        waiting = asyncio.create_task(AsyncRedisLock(valkey_async, "phone").acquire())
        while await lock.waiters() != 1:
            await asyncio.sleep(0.005)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await lock.waiters() == 0
    assert valkey.keys() == [FENCE.encode()]


async def test_cancelled_release_is_sent_all_the_same(valkey: Redis, valkey_async: Any) -> None:
    lease = await AsyncRedisLock(valkey_async, "phone").acquire()
    releasing = asyncio.create_task(lease.release())
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    while not lease.released:
        await asyncio.sleep(0.005)
    assert not valkey.exists(LOCK)


async def test_cancelled_acquire_does_not_hold_the_lock(valkey: Redis, valkey_async: Any) -> None:
    lock = AsyncRedisLock(valkey_async, "phone")
    for steps in range(12):
        acquiring = asyncio.create_task(AsyncRedisLock(valkey_async, "phone").acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        if acquiring.cancel():
            with pytest.raises(asyncio.CancelledError):
                await acquiring
        else:
            await (await acquiring).release()
        await (await lock.acquire(5)).release()


def test_grant_that_comes_after_its_lease_is_not_returned(
    behind: Any, gate: Any, store: Redis
) -> None:
    """The first answer is silent for longer than the lease; the second grant is a new one."""
    gate.plan[ACQUIRE.sha] = "silence"
    lease = behind.lock(lease=0.5, renew=False).acquire(20)
    left = store.pttl(LOCK) / 1000
    assert 0 < lease.remaining() <= max(left, 0) + 0.02
    lease.release()


def test_last_try_without_an_answer_is_unavailable(own_valkey: Any) -> None:
    with Redis.from_url(own_valkey.endpoint, socket_timeout=1) as client:
        lock = RedisLock(client, "phone")
        with lock, own_valkey.stopped(), pytest.raises((LockUnavailable, LockTimeout)):
            Task(lambda: RedisLock(client, "phone").acquire(0.2)).result(within=20)
