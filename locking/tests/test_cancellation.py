"""Cancellation of an asyncio operation at each of its await points in turn."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
from redis.asyncio import Redis

from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_shared import AsyncRedisSemaphore, AsyncRedisWriteLock
from locking.redis_client import connect_async
from locking.tests.helpers import until_waiting
from locking.tests.servers import Valkey

WHILE_IT_WAITS = "while it waits"
AS_THE_ANSWER_ARRIVES = "as the answer arrives"
TWICE = "twice"

Make = Callable[[Redis], AsyncRedisLock]

KINDS: dict[str, Make] = {
    "mutex": lambda client: AsyncRedisLock(client, "phone", lease=60),
    "write": lambda client: AsyncRedisWriteLock(client, "phone", lease=60),
    "semaphore": lambda client: AsyncRedisSemaphore(client, "phone", 1, lease=60),
}


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


async def enter(client: Redis, make: Make) -> None:
    async with make(client) as lease:
        await lease.extend(50)


async def wait_and_enter(client: Redis, make: Make) -> None:
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


async def cancel_one(url: str, make: Make, operation: Any, when: str, point: int) -> bool:
    """Return whether the operation was over before the point."""
    client, seen = connect_async(url), list[object]()
    probe = connect_async(url)
    assert isinstance(client, Redis)
    assert isinstance(probe, Redis)

    async def run() -> None:
        await cancelled_at(point, when, operation(client, make), seen)

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=30)
    assert task.done(), f"hangs after a cancellation at {point}"
    reached = len(seen) >= point
    assert task.cancelled() is reached, f"the cancellation at {point} was swallowed"
    # Nobody is kept waiting for the lease of the cancelled one, which lasts a minute.
    lock = make(probe)
    await (await lock.acquire(timeout=10)).release()
    async with asyncio.timeout(10):
        while await lock.waiters() or await probe.keys("*:wake:*") or await lock.owners():
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", [enter, wait_and_enter])
@pytest.mark.parametrize("when", [WHILE_IT_WAITS, AS_THE_ANSWER_ARRIVES, TWICE])
# A lease whose release was cancelled may be dropped; so may a connection that is closing.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("valkey")
async def test_a_cancellation_is_never_swallowed_and_leaves_nothing(
    valkey_server: Valkey, kind: str, operation: Any, when: str
):
    for point in count(1):
        if await cancel_one(valkey_server.endpoint, KINDS[kind], operation, when, point):
            assert point > 3
            return
