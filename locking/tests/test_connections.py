"""The tasks of a loop share connections, however many wait, give up or are cancelled."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest
import redis.asyncio
from redis import Redis

from locking import Lease, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_line import LISTEN, Line
from locking.backends.redis_transport import MAX_SKIPPED, Spinner, is_cooperative
from locking.redis_client import connect_async
from locking.tests.helpers import until_waiting
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


async def test_a_revoked_grant_that_was_read_before_the_answer_grants_nothing(
    valkey: Redis, valkey_async
):
    holder = RedisLock(valkey, "phone").acquire()
    heir = AsyncRedisLock(valkey_async, "phone")
    transport = heir.remote.transport
    revoked: list[bytes] = []
    others: list[Lease] = []

    class Revoking:
        def __getattr__(self, name):
            return getattr(transport, name)

        async def pop(self, key, seconds, patience=None):
            if others:
                return revoked.pop() if revoked else await transport.pop(key, seconds, patience)
            holder.release()
            message = await transport.pop(key, seconds, patience)
            RedisLock(valkey, "phone").force_release("the test wants it")
            others.append(RedisLock(valkey, "phone").acquire(timeout=0))
            revoked.append(message)
            return None  # the slice is over, and it asks; the message is read after the answer

    heir.remote.transport = Revoking()
    with pytest.raises(LockTimeout):
        await heir.acquire(timeout=1)
    others[0].check()
    others[0].release()


class Broken:
    """A connection that breaks while a command is sent."""

    is_connected = True

    async def send_packed_command(self, commands, check_health=True):
        await asyncio.sleep(0.01)
        raise redis.ConnectionError("broken pipe")

    async def read_response(self, disable_decoding=False):
        await asyncio.sleep(0.005)
        raise redis.ConnectionError("reset by peer")

    async def disconnect(self, nowait=False):
        self.is_connected = False


async def test_a_broken_connection_leaves_no_error_that_nobody_looks_at():
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    line = Line(Broken())
    with pytest.raises(redis.ConnectionError):
        await line.ask(("EVALSHA",), 1.0)
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []


# -- spinning: an answer is looked for a moment before the thread sleeps, where that pays


def looks(spinner: Spinner, answer: Mock, commands: int) -> int:
    """In how many of these commands the answer was looked for."""
    spun = 0
    for _ in range(commands):
        before = answer.call_count
        spinner.spin()
        spun += answer.call_count > before
    return spun


def test_a_thread_spins_as_long_as_answers_come_in_time():
    answer = Mock(return_value=True)
    spinner = Spinner(answer)
    assert looks(spinner, answer, 10) == answer.call_count == 10
    for _ in range(3):  # each of them late once, after many in time
        answer.return_value = False
        spinner.spin()
        answer.return_value = True
        assert looks(spinner, answer, 100) == 98
    answer.return_value = False
    assert looks(spinner, answer, 10 * MAX_SKIPPED) < 20
    answer.return_value = True
    spinner.suspend()
    assert looks(spinner, answer, MAX_SKIPPED) == 0
    assert looks(spinner, answer, 10) == 10


@needs(GEVENT)
def test_a_greenlet_does_not_spin():
    with socket.socket() as plain:
        assert not is_cooperative(plain)
    code = (
        "import gevent.monkey; gevent.monkey.patch_all()\n"
        "import socket\n"
        "from locking.backends.redis_transport import is_cooperative\n"
        "assert is_cooperative(socket.socket())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
