"""Which lease belongs to which `with` block, thread and task."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from redis import Redis

from locking import Lease, LockLost, LockNotHeld, LockTimeout
from locking.backends.redis import RedisLease, RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.tests.helpers import Task, before_answer, eventually, fence

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


# -- in other threads and tasks


@contextmanager
def block_of(lock: RedisLock) -> Iterator[Lease]:
    with lock as lease:
        yield lease


async def test_a_lease_of_a_task_that_waited_is_renewed_and_released(valkey_async):
    """The tasks of `wait_for`, `gather` and `create_task` have ended when the lease is used."""

    def lock(name: str) -> AsyncRedisLock:
        return AsyncRedisLock(valkey_async, name, lease=0.4)

    waited = await asyncio.wait_for(lock("a").acquire(), 5)
    gathered = await asyncio.gather(lock("b").acquire(), lock("c").acquire())
    made = await asyncio.create_task(lock("d").acquire())
    kept = lock("e")
    await asyncio.wait_for(kept.acquire(), 5)  # the handle has it
    assert not await waited.wait_lost(1.0)
    for lease in (waited, *gathered, made, kept.lease):
        lease.check()
    await kept.release()
    for lease in (waited, *gathered, made):
        await lease.release()
    assert not any([await lock(name).locked() for name in "abcde"])


def test_a_lease_that_an_executor_acquired_is_renewed_and_released_elsewhere(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=0.4)
    with ThreadPoolExecutor(1) as pool:
        lease = pool.submit(lock.acquire).result()
    assert not lease.lost.wait(1.0)
    lease.release()
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        pool.submit(lock.acquire).result()
        other.submit(lock.release).result()
    assert not lock.locked()


def test_a_block_may_end_in_another_thread_than_it_began(valkey: Redis):
    """As a dependency of FastAPI: a generator whose halves run in threads of a pool."""
    lock = RedisLock(valkey, "phone", lease=5)
    counted: list[int] = []

    def request(enter: ThreadPoolExecutor, leave: ThreadPoolExecutor) -> None:
        held = block_of(lock)
        counted.append(fence(enter.submit(held.__enter__).result()))
        leave.submit(held.__exit__, None, None, None).result()

    with (
        ThreadPoolExecutor(4) as enter,
        ThreadPoolExecutor(1) as leave,
        ThreadPoolExecutor(8) as handlers,
    ):
        for done in [handlers.submit(request, enter, leave) for _ in range(40)]:
            done.result(timeout=60)
    assert len(counted) == 40
    assert counted == sorted(set(counted))
    assert not lock.locked()


def test_a_block_that_ends_late_in_another_thread_releases_no_later_block(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=0.2, renew=False)
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        first, second = block_of(lock), block_of(lock)
        lost = pool.submit(first.__enter__).result()
        assert lost.lost.wait(5)
        lock.lease_seconds = 60
        kept = pool.submit(second.__enter__).result()
        with pytest.raises(LockLost):
            other.submit(first.__exit__, None, None, None).result()
        kept.check()
        other.submit(second.__exit__, None, None, None).result()
    assert not lock.locked()


def test_blocks_of_exit_stacks_in_several_threads_keep_apart(valkey: Redis):
    lock = RedisLock(valkey, "phone")

    def work() -> None:
        for _ in range(20):
            with ExitStack() as stack:
                mine = stack.enter_context(lock)
                mine.check()
            assert mine.released

    for task in [Task(work) for _ in range(4)]:
        task.result(within=60)
    assert not lock.locked()


def test_a_caller_that_acquired_in_vain_does_not_release_anothers_lease(valkey: Redis):
    lock = RedisLock(valkey, "phone")

    def careless() -> None:
        with pytest.raises(LockTimeout):
            lock.acquire(timeout=0.05)
        with pytest.raises(LockNotHeld):
            lock.release()

    with lock.acquire() as lease:
        Task(careless).result()
        lease.check()


def test_nobody_enters_again_while_the_last_release_is_on_its_way(valkey: Redis):
    lock = RedisLock(valkey, "phone", reentrant=True, owner="till 7")
    first, later = lock.acquire(), list[RedisLease]()
    before_answer(lock, lambda: later.append(Task(lock.acquire, 0).result()))
    first.release()
    assert later[0] is not first
    assert later[0].remaining() > 0
    later[0].release()


# -- of blocks, and of threads and tasks that end


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

    with pytest.raises(ValueError, match="the body's") as in_thread:
        fail()
    with pytest.raises(ValueError, match="the body's") as in_task:
        await fail_in_a_task()
    for caught in (in_thread, in_task):
        assert "LockNotHeld" in caught.value.__notes__[0]
    with pytest.raises(LockNotHeld), lock:
        lock.release()


async def test_a_handle_forgets_the_leases_of_threads_and_tasks_that_ended(valkey, valkey_async):
    lock, other = RedisLock(valkey, "phone"), AsyncRedisLock(valkey_async, "tablet")

    async def forget() -> weakref.ref[object]:
        return weakref.ref(await other.acquire())

    of_thread = Task(lambda: weakref.ref(lock.acquire())).result()
    of_task = await asyncio.create_task(forget())
    await asyncio.sleep(0.01)
    gc.collect()
    assert of_task() is None
    eventually(lambda: of_thread() is None, within=5)


@pytest.mark.parametrize("ends", [{"renew": False}, {"max_hold": 0.3}], ids=str)
def test_a_thread_may_wait_for_its_own_lease_if_that_ends(valkey: Redis, ends):
    first = RedisLock(valkey, "phone", lease=0.3, **ends).acquire()
    with RedisLock(valkey, "phone").acquire() as second:
        assert fence(second) > fence(first)
    with pytest.raises(LockLost):
        first.release()


def test_what_a_lease_and_a_handle_are_is_told(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    assert "'phone'" in repr(lock)
    assert "no lease" in repr(lock)
    lease = lock.acquire()
    assert f"token {lease.token}, held for" in repr(lease)
    assert repr(lease) in repr(lock)
    lease.release()
    assert repr(lease).endswith("released>")
