"""Connections: those that tasks share, those that are closed, and those of greenlets."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import time
from unittest.mock import AsyncMock, Mock

import pytest
import redis.asyncio
from redis import Redis

from locking import LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_line import LISTEN, Line
from locking.backends.redis_transport import MAX_SKIPPED, Spinner
from locking.redis_client import connect_async
from locking.tests.helpers import eventually, until_waiting
from locking.tests.needs import GEVENT, needs
from locking.tests.servers import Valkey

NAME = "shares"


@pytest.fixture
def valkey_async(valkey: Redis, valkey_server: Valkey):
    return connect_async(valkey_server.endpoint, client_name=NAME)


def connections(watcher: Redis) -> int:
    return sum(each["name"] == NAME for each in watcher.client_list())


async def test_hundreds_of_waiting_tasks_take_few_connections(valkey: Redis, valkey_async):
    lock, entered = AsyncRedisLock(valkey_async, "phone"), list[int]()

    async def enter() -> None:
        async with await AsyncRedisLock(valkey_async, "phone").acquire(timeout=80) as lease:
            entered.append(lease.token or 0)

    async with lock:
        tasks = [asyncio.create_task(enter()) for _ in range(300)]
        await until_waiting(lock, 300)
        assert connections(valkey) <= 4
    await asyncio.gather(*tasks)
    assert len(entered) == 300
    assert entered == sorted(set(entered))


async def test_giving_up_and_cancelling_close_no_connections(valkey: Redis, valkey_async):
    lock = AsyncRedisLock(valkey_async, "phone")
    await lock.acquire()

    async def give_up() -> None:
        with pytest.raises(LockTimeout):
            await AsyncRedisLock(valkey_async, "phone").acquire(timeout=0.1)

    async def is_cancelled() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(AsyncRedisLock(valkey_async, "phone").acquire(), 0.1)

    await asyncio.gather(give_up(), is_cancelled())
    before = valkey.info("stats")["total_connections_received"]
    for _ in range(5):
        await asyncio.gather(*(give_up() for _ in range(20)), *(is_cancelled() for _ in "123"))
    assert valkey.info("stats")["total_connections_received"] == before
    assert await lock.waiters() == 0
    await lock.release()


async def test_a_waiter_that_joins_others_is_woken_at_once(valkey: Redis, valkey_async):
    """Its list is not among those that are popped already: a bell ends that pop."""
    other, lock = AsyncRedisLock(valkey_async, "other"), AsyncRedisLock(valkey_async, "phone")
    began = time.monotonic()
    async with other:
        waiting = asyncio.create_task(AsyncRedisLock(valkey_async, "other").acquire())
        await until_waiting(other, 1)
        for _ in range(20):
            lease = await lock.acquire()
            heir = asyncio.create_task(AsyncRedisLock(valkey_async, "phone").acquire())
            await until_waiting(lock, 1)
            await lease.release()
            await (await heir).release()
    await (await waiting).release()
    # Without the bell, each of the twenty would wait for the slice of its own.
    assert valkey.info("commandstats")["cmdstat_blpop"]["calls"] >= 20
    assert time.monotonic() - began < 20 * LISTEN


async def test_closing_the_client_closes_the_connections_of_its_locks(
    valkey, valkey_server, valkey_async
):
    eventually(lambda: connections(valkey) == 0)  # those of other tests are closed
    with Redis.from_url(valkey_server.endpoint, client_name=NAME) as client:
        RedisLock(client, "phone").acquire().release()
        assert connections(valkey) == 1
    eventually(lambda: connections(valkey) == 0)
    await (await AsyncRedisLock(valkey_async, "phone").acquire()).release()
    assert connections(valkey) == 1
    await valkey_async.aclose()
    eventually(lambda: connections(valkey) == 0)


async def test_a_broken_connection_leaves_no_error_that_nobody_looks_at():
    async def breaks(after: float) -> None:
        await asyncio.sleep(after)
        raise redis.ConnectionError("reset by peer")

    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    connection = Mock(
        is_connected=True,
        send_packed_command=lambda *_, **__: breaks(0.01),
        read_response=lambda **_: breaks(0.005),
        disconnect=AsyncMock(),
    )
    with pytest.raises(redis.ConnectionError):
        await Line(connection).ask(("EVALSHA",), 1.0)
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []


def test_a_thread_looks_for_an_answer_before_it_sleeps_as_long_as_answers_come_in_time():
    answer = Mock(return_value=True)
    spinner = Spinner(answer)

    def looks(commands: int) -> int:
        """In how many of these commands the answer was looked for."""
        spun = 0
        for _ in range(commands):
            before = answer.call_count
            spinner.spin()
            spun += answer.call_count > before
        return spun

    assert looks(10) == answer.call_count == 10
    for _ in range(3):  # each of them late once, after many in time
        answer.return_value = False
        spinner.spin()
        answer.return_value = True
        assert looks(100) == 98
    answer.return_value = False
    assert looks(10 * MAX_SKIPPED) < 20
    answer.return_value = True
    spinner.suspend()
    assert looks(MAX_SKIPPED) == 0
    assert looks(10) == 10


# -- greenlets


PATCH = "from gevent import monkey\nmonkey.patch_all()\n"
WARNINGS = {"at first": ("-W", "error", "-W", "ignore:the lease:ResourceWarning"), "late": ()}
WITH_GEVENT = """
    from gevent import monkey
    monkey.patch_all()
    import sys, gevent, threading, time
    from locking import LockLost, LockTimeout
    from locking.backends.redis import RedisLock
    from locking.redis_client import connect

    client = connect(sys.argv[1])
    lock = RedisLock(client, "phone", lease=1)
    inside = entered = ticks = 0

    def enter():
        global inside, entered
        with lock.acquire(timeout=90):
            inside += 1
            assert inside == 1, inside
            gevent.sleep(0)
            inside -= 1
            entered += 1

    def tick():
        global ticks
        while True:
            gevent.sleep(0.01)
            ticks += 1

    ticker = gevent.spawn(tick)
    with lock.acquire() as lease:
        jobs = [gevent.spawn(enter) for _ in range(50)]
        while lock.waiters() < 50:
            gevent.sleep(0.01)
        assert not lease.lost.wait(2.0)       # renewed past its lease, and nobody blocked the hub
        assert ticks > 20, ticks
    gevent.joinall(jobs, raise_error=True)
    assert entered == 50

    with lock.acquire():
        killed = gevent.spawn(enter)
        while lock.waiters() < 1:
            gevent.sleep(0.01)
        killed.kill()
        assert lock.waiters() == 0

    assert lock.remote.transport._idle[0].spinner is None  # a spin would block the hub
    gevent.spawn(lambda: lock.acquire() and None).join()   # a greenlet that dies as holder
    RedisLock(client, "phone").acquire(timeout=10).release()
    print("done")
"""


@needs(GEVENT)
@pytest.mark.parametrize("patched", ["at first", "late"])
def test_greenlets_exclude_each_other_and_never_block_the_hub(valkey, valkey_server, patched):
    """Late: as in gunicorn with `--preload`, imported in the master and patched in the worker."""
    code = textwrap.dedent(WITH_GEVENT)
    if patched == "late":
        code = code.replace(PATCH, "", 1).replace("inside =", f"{PATCH}inside =", 1)
    done = subprocess.run(
        [sys.executable, *WARNINGS[patched], "-c", code, valkey_server.endpoint],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
