"""The locks for asyncio: they do what those for threads do, and both exclude each other."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Awaitable
from functools import partial
from itertools import count
from typing import Any

import pytest
from redis import Redis

from locking import LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_status import status_of
from locking.queue import AsyncDelayQueue, DelayQueue
from locking.redis_client import connect_async
from locking.tests.helpers import Task, in_loop, until_waiting
from locking.tests.servers import Valkey

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


async def test_only_one_of_many_tasks_is_inside_and_they_enter_in_order(store, store_async):
    order: list[int] = []
    inside = 0

    async def enter(number: int) -> None:
        nonlocal inside
        async with await AsyncRedisLock(store_async, "phone").acquire(timeout=20):
            inside += 1
            assert inside == 1
            order.append(number)
            await asyncio.sleep(0)
            inside -= 1

    lock = AsyncRedisLock(store_async, "phone")
    tasks = []
    async with await lock.acquire():
        for number in range(10):
            tasks.append(asyncio.create_task(enter(number)))
            await until_waiting(lock, len(tasks))
    await asyncio.gather(*tasks)
    assert order == list(range(10))
    assert store.keys() == [b"lock:{phone}:fence"]


async def test_tasks_and_threads_exclude_each_other_under_the_same_name(store, store_async):
    lock, blocking = AsyncRedisLock(store_async, "phone", owner="task"), RedisLock(store, "phone")
    async with lock as lease:
        assert blocking.owner() == "task"
        status = await status_of(lock)
        assert (status.owner, status.token) == ("task", lease.token)
        heir = Task(lambda: blocking.acquire(timeout=20))
        await until_waiting(lock)
    following = await asyncio.to_thread(heir.result)
    assert following.token > lease.token
    following.release()


async def test_a_lease_is_extended_until_it_is_taken_away(store_async):
    lock = AsyncRedisLock(store_async, "phone", lease=1)
    lease = await lock.acquire()
    await lease.extend(30)
    assert 29 < lease.remaining() <= 30
    await lease.extend(1)  # and renewed, which notices the loss
    assert await lock.force_release("the test wants it")
    assert await lease.wait_lost(5)
    with pytest.raises(LockLost):
        await lease.extend(30)
    assert not await store_async.exists("lock:{phone}")
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_delay_queue_for_asyncio_is_the_same_queue(store, store_async):
    queue, other = AsyncDelayQueue(store_async, "orders"), DelayQueue(store, "orders")
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
    assert await queue.pop() == []
    assert not await store_async.keys()


def test_loops_in_several_threads_wait_and_acquire_at_once(valkey: Redis, valkey_server: Valkey):
    """A waiting task looks for a lease of its own while other loops get and release theirs."""

    def work(number: int) -> None:
        async def scenario(client: Any) -> None:
            leases = []
            for turn in range(60):
                leases.append(await AsyncRedisLock(client, f"{number}-{turn}").acquire())
                with pytest.raises(LockTimeout):
                    await AsyncRedisLock(client, "held").acquire(timeout=0.001)
            for lease in leases:
                await lease.release()

        in_loop(valkey_server.endpoint, scenario)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with RedisLock(valkey, "held", lease=60):
            for task in [Task(work, number) for number in range(4)]:
                task.result(within=60)
    finally:
        sys.setswitchinterval(interval)


# -- cancellation of an operation at each of its await points in turn

WHILE_IT_WAITS = "while it waits"
AS_THE_ANSWER_ARRIVES = "as the answer arrives"
TWICE = "twice"


@types.coroutine
def cancelled_at(point: int, when: str, awaitable: Awaitable[None], seen: list[object]) -> Any:
    """Await something; cancel the running task at its `point`-th suspension.

    `seen` collects what it waited for.  "As the answer arrives" is the moment at which the awaited
    future is done and the task has not run yet.  "Twice" is at that suspension and at the next.
    """
    task = asyncio.current_task()
    assert task is not None
    inner = awaitable.__await__()
    step = partial(inner.send, None)
    while True:
        try:
            future: Any = step()
        except StopIteration:
            return
        seen.append(future)
        if len(seen) == point or (when == TWICE and len(seen) == point + 1):
            if when == AS_THE_ANSWER_ARRIVES and future is not None:
                future.add_done_callback(lambda _: task.cancel())
            else:
                task.cancel()
        try:
            value = yield future
        except BaseException as error:  # noqa: BLE001 - it goes on into the operation
            step = partial(inner.throw, error)
        else:
            step = partial(inner.send, value)


def make(client: Any) -> AsyncRedisLock:
    return AsyncRedisLock(client, "phone", lease=60)


async def enter(client: Any) -> None:
    async with make(client) as lease:
        await lease.extend(50)


async def wait_and_enter(client: Any) -> None:
    """Another task holds the lock, and releases it as soon as this one waits for it."""

    async def hold() -> None:
        async with lock:
            held.set()
            await until_waiting(lock)

    lock, held = make(client), asyncio.Event()
    holding = asyncio.create_task(hold())
    try:
        await held.wait()
        async with await make(client).acquire(timeout=20):
            pass
    finally:
        holding.cancel()


async def cancel_one(url: str, operation: Any, when: str, point: int) -> bool:
    """Return whether the operation was over before the point."""
    client, probe, seen = connect_async(url), connect_async(url), list[object]()

    async def run() -> None:
        await cancelled_at(point, when, operation(client), seen)

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=30)
    assert task.done(), f"hangs after a cancellation at {point}"
    reached = len(seen) >= point
    assert task.cancelled() is reached, f"the cancellation at {point} was swallowed"
    # Nobody is kept waiting for the lease of the cancelled one, which lasts a minute.
    lock = make(probe)
    await (await lock.acquire(timeout=10)).release()
    async with asyncio.timeout(10):
        while await lock.waiters() or await probe.keys("*:wake:*") or await lock.owner():
            await asyncio.sleep(0.01)
    # The connections are in step: each answer belongs to its command.
    again = make(client)
    async with again as lease:
        assert await again.owned()
        assert await again.waiters() == 0
        assert lease.remaining() > 50
    await client.aclose()
    await probe.aclose()
    return not reached


@pytest.mark.parametrize("operation", [enter, wait_and_enter])
@pytest.mark.parametrize("when", [WHILE_IT_WAITS, AS_THE_ANSWER_ARRIVES, TWICE])
# A lease whose release was cancelled may be dropped; so may a connection that is closing.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("valkey")
async def test_a_cancellation_is_never_swallowed_and_leaves_nothing(
    valkey_server: Valkey, operation: Any, when: str
):
    for point in count(1):
        if await cancel_one(valkey_server.endpoint, operation, when, point):
            assert point > 3
            return
