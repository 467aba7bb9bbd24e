"""The surface of a handle, blocking and for asyncio: as an experienced developer expects it."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from typing import Any

import pytest
import redis.asyncio
from redis import Redis

from locking import (
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    LockUnavailable,
)
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_status import LockStatus, status_of
from locking.backends.redlock import RedLock
from locking.redis_client import connect, connect_async
from locking.tests.helpers import Task, eventually, fence
from locking.tests.servers import Valkey


def test_a_reentrant_handle_is_entered_again_by_its_owner_in_any_thread(valkey: Redis):
    with pytest.raises(ValueError, match="owner"):
        RedisLock(valkey, "phone", reentrant=True)
    lock = RedisLock(valkey, "phone", reentrant=True, owner="till 7")
    with lock as outer, lock as inner:
        assert Task(lock.acquire).result() is inner is outer is lock.lease
        lock.release()
        outer.check()
        assert lock.locked()
        assert lock.owned()
        assert not Task(lock.owned).result()
    assert outer.released
    assert not lock.locked()
    assert not lock.owned()


def test_a_handle_releases_and_extends_what_its_thread_holds(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=2)
    lock.acquire()
    lock.extend(60)
    assert 59 < lock.lease.remaining() <= 60
    Task(lock.release).result()  # a thread that was handed it
    for call in (lock.release, lambda: lock.lease, lambda: lock.extend(1)):
        with pytest.raises(LockNotHeld, match="phone"):
            call()


def test_a_handle_may_try_once_and_has_a_time_limit_of_its_own(valkey: Redis):
    hasty, other = RedisLock(valkey, "phone", timeout=0.05), RedisLock(valkey, "phone")
    with other:
        for attempt in (
            lambda: other.acquire(blocking=False),
            lambda: other.acquire(False),
            lambda: other.acquire(timeout=0),
            hasty.acquire,
            hasty.__enter__,
        ):
            with pytest.raises(LockTimeout, match="phone"):
                attempt()
    with hasty:
        pass


@pytest.mark.parametrize(
    "options", [{"timeout": -1}, {"timeout": float("nan")}, {"blocking": False, "timeout": 1}]
)
def test_a_senseless_time_limit_is_refused(valkey: Redis, options):
    with pytest.raises(ValueError, match="timeout"):
        RedisLock(valkey, "phone").acquire(**options)


def test_owned_asks_the_server(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    lock.acquire()
    assert lock.owned()
    valkey.flushall()
    assert not lock.owned()
    with pytest.raises(LockLost):
        lock.release()


def test_a_lock_can_be_made_from_a_url(valkey: Redis, valkey_server: Valkey):
    with RedisLock(valkey_server.endpoint, "phone", owner="url"):
        assert RedisLock(valkey, "phone").owner() == "url"
        assert (
            RedisLock(valkey_server.endpoint, "a").remote.transport
            is RedisLock(valkey_server.endpoint, "b").remote.transport
        )


def test_what_is_no_client_or_no_name_is_refused_at_once(valkey: Redis):
    for client in (None, 7, object(), redis.asyncio.Redis()):
        with pytest.raises(TypeError):
            RedisLock(client, "phone")
    for client in (None, 7, object(), valkey):
        with pytest.raises(TypeError):
            AsyncRedisLock(client, "phone")
    with pytest.raises(ValueError, match="URL"):
        RedisLock("phone", "127.0.0.1")
    no_text: Any
    for no_text in (7, None, b"phone", ("phone",)):
        with pytest.raises(TypeError, match="name must be text, not"):
            RedisLock(valkey, no_text)
        with pytest.raises(TypeError, match="name must be text, not"):
            RedLock([valkey] * 3, no_text)
    for name in ("", "}x", "{x"):  # would not be the hash tag of its keys
        with pytest.raises(ValueError, match="start with a brace"):
            RedisLock(valkey, name)


def test_an_argument_of_another_kind_is_named(valkey: Redis):
    lock: Any = RedisLock(valkey, "phone")
    make: Any = RedisLock
    for call, problem in (
        (lambda: make(valkey, "phone", lease=None), "lease must be a number of seconds, not None"),
        (lambda: make(valkey, "phone", timeout="5"), "timeout must be .* or None, not '5'"),
        (lambda: make(valkey, "phone", max_hold="3"), "max_hold must be a number"),
        (lambda: lock.acquire("5"), "timeout must be"),
    ):
        with pytest.raises(TypeError, match=problem):
            call()


def test_a_dropped_handle_and_lease_warn_and_are_no_longer_renewed(valkey: Redis):
    with pytest.warns(ResourceWarning, match="'phone' was dropped"):
        RedisLock(valkey, "phone", lease=0.3).acquire()
    RedisLock(valkey, "phone").acquire(timeout=5).release()


def test_a_handle_keeps_the_lease_whose_result_was_dropped(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=3)
    lock.acquire()
    gc.collect()

    def expires() -> float:
        return time.monotonic() + lock.lease.remaining()

    first = expires()
    eventually(lambda: expires() > first + 0.5)  # renewed after a third of the lease
    lock.release()


def test_a_lease_that_was_released_even_without_an_answer_does_not_warn(own_valkey: Valkey):
    lock = RedisLock(connect(own_valkey.endpoint, timeout=0.2), "phone")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lock:
            pass
        lock.acquire().release()
        lock.acquire()
        own_valkey.kill()
        with pytest.raises(LockUnavailable):
            lock.release()
        del lock
        gc.collect()


async def test_a_second_handle_does_not_wait_for_its_own_caller_forever(valkey, valkey_async):
    with RedisLock(valkey, "phone"):
        other = RedisLock(valkey, "phone")
        with pytest.raises(LockError, match=r"itself holds 'phone'.*reentrant=True"):
            other.acquire()
        with pytest.raises(LockTimeout) as caught:
            other.acquire(timeout=0.1)
        assert any("itself holds" in note for note in caught.value.__notes__)
        assert other.waiters() == 0
    async with AsyncRedisLock(valkey_async, "phone"):
        with pytest.raises(LockError, match="itself holds 'phone'"):
            await AsyncRedisLock(valkey_async, "phone").acquire()
        with pytest.raises(LockTimeout):
            await AsyncRedisLock(valkey_async, "phone").acquire(timeout=0.1)


async def test_the_asyncio_handle_has_the_same_surface(valkey_async):
    lock = AsyncRedisLock(valkey_async, "phone", lease=2, reentrant=True, owner="till 7")
    async with lock as outer, lock as inner:
        assert inner is outer is lock.lease
        assert await lock.locked()
        assert await lock.owned()
        with pytest.raises(LockNotHeld):
            await asyncio.create_task(lock.release())
        with pytest.raises(LockTimeout, match="phone"):
            await AsyncRedisLock(valkey_async, "phone").acquire(blocking=False)
    assert outer.released
    assert not await lock.locked()
    await lock.acquire(timeout=1)
    await lock.extend(60)
    assert lock.lease.remaining() > 59
    await lock.release()
    with pytest.raises(LockNotHeld):
        await lock.release()


async def test_an_asyncio_lease_that_was_dropped_ends_while_its_task_lives(valkey_async):
    lease = await AsyncRedisLock(valkey_async, "phone", lease=0.3).acquire()
    await asyncio.sleep(0.01)  # its renewal has begun
    with pytest.warns(ResourceWarning, match="'phone' was dropped"):
        del lease
    await (await AsyncRedisLock(valkey_async, "phone").acquire(timeout=5)).release()


def test_an_asyncio_lock_can_be_made_from_a_url_and_outlives_a_loop(valkey_server: Valkey):
    lock = AsyncRedisLock(connect_async(valkey_server.endpoint), "phone")

    by_url = AsyncRedisLock(valkey_server.endpoint, "other")

    async def enter() -> int:
        try:
            async with lock as lease, by_url:
                return fence(lease)
        finally:
            await lock.remote.transport.close()
            await by_url.remote.transport.close()

    assert asyncio.run(enter()) != asyncio.run(enter())


FREE = LockStatus(owner=None, token=0, remaining=0.0, waiters=())


def test_the_status_names_the_holder_and_the_live_waiters_in_order_of_arrival(store):
    def wait(owner: str) -> None:
        RedisLock(store, "phone", owner=owner).acquire(timeout=20).release()

    lock = RedisLock(store, "phone", lease=20, owner="holder:with:colons")
    assert status_of(lock) == FREE
    with lock.acquire() as lease:
        found = status_of(RedisLock(store, "phone"))
        assert found == LockStatus("holder:with:colons", fence(lease), found.remaining, ())
        assert 15 < found.remaining <= 20
        store.rpush(lock.remote.keys[2], "f10000:dead:crashed")
        store.zadd(lock.remote.keys[3], {"f10000:dead:crashed": 1})
        waiting = [Task(wait, "web 2")]
        eventually(lambda: status_of(lock).waiters == ("web 2",))
        waiting.append(Task(wait, "web 3"))
        eventually(lambda: status_of(lock).waiters == ("web 2", "web 3"))
    for task in waiting:
        task.result()
    assert status_of(lock) == FREE
