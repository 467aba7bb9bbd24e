"""Answers that are lost or late or never come: nothing is done twice, and nobody waits forever."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from unittest.mock import Mock

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from locking import LockLost, LockUnavailable
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_protocol import MUTEX
from locking.redis_client import connect, connect_async
from locking.tests.helpers import (
    Interrupted,
    Task,
    before_answer,
    eventually,
    in_loop,
    until_waiting,
)
from locking.tests.servers import Valkey


class Proxy(socketserver.ThreadingTCPServer):
    """Forwards to 127.0.0.1:`port`; loses the answer to the next request with a text of `plan`.

    Then the connection breaks ("reset"), or the answer never comes ("silence").
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.target = ("127.0.0.1", port)
        self.url = f"redis://127.0.0.1:{self.server_address[1]}/0"
        self.plan: dict[str, str] = {}
        self.lost = 0


class Connection(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        # One request, one answer: all that a lock's connection ever does.
        with suppress(OSError), socket.create_connection(self.server.target) as server:
            while request := self.request.recv(1 << 16):
                named = next((text for text in self.server.plan if text.encode() in request), "")
                fault = self.server.plan.pop(named, None)
                server.sendall(request)
                answer = server.recv(1 << 16)
                self.server.lost += fault is not None
                if fault == "reset":
                    return
                if fault is None:
                    self.request.sendall(answer)


@pytest.fixture
def proxy(valkey_server: Valkey) -> Iterator[Proxy]:
    with Proxy(valkey_server.port) as proxy:
        Task(proxy.serve_forever, poll_interval=0.01)
        yield proxy
        proxy.shutdown()


@pytest.mark.parametrize("fault", ["reset", "silence"])
def test_redis_py_8_1_acquire_whose_reply_was_lost_still_holds_the_lock(valkey, proxy, fault):
    RedisLock(valkey, "warm").acquire().release()  # so that the script is known by its hash
    lock = RedisLock(connect(proxy.url, timeout=0.3), "phone")
    proxy.plan[MUTEX.acquire.sha] = fault
    with lock.acquire(timeout=0) as lease:
        assert valkey.get("lock:{phone}:fence") == str(lease.token).encode()
    assert proxy.lost == 1
    assert not valkey.exists("lock:{phone}")


@pytest.mark.parametrize("fault", ["reset", "silence"])
def test_a_release_whose_reply_was_lost_counts_as_a_release(valkey, proxy, fault):
    with RedisLock(connect(proxy.url, timeout=0.3), "phone"):
        heir = Task(lambda: RedisLock(valkey, "phone").acquire(timeout=10))
        eventually(lambda: RedisLock(valkey, "phone").waiters() == 1)
        proxy.plan[MUTEX.release.sha] = fault
    assert proxy.lost == 1
    heir.result().release()


def test_redisson_5761_lost_wake_up_leaves_the_waiter_asleep(valkey, proxy):
    holder = RedisLock(valkey, "phone").acquire()
    proxy.plan["BLPOP"] = "reset"
    heir = Task(lambda: RedisLock(connect(proxy.url), "phone").acquire(timeout=10))
    eventually(lambda: valkey.info("clients")["blocked_clients"] == 1)
    holder.release()
    heir.result(within=5).release()
    assert proxy.lost == 1


@pytest.mark.parametrize(
    ("sent", "lease", "lost"),
    [(True, 10, None), (False, 10, "flushed"), (False, 0.02, "ran out")],
)
def test_a_repeated_release_after_an_interrupt_reports_only_a_true_loss(valkey, sent, lease, lost):
    lock = RedisLock(valkey, "phone", lease=lease, renew=False)
    held = lock.acquire()
    if lost == "ran out":
        eventually(lambda: not valkey.exists("lock:{phone}"))
    before_answer(lock, Mock(side_effect=Interrupted), sent=sent)
    with pytest.raises(Interrupted):
        held.release()
    if lost:
        valkey.flushall()
    with pytest.raises(LockLost) if lost else nullcontext():
        held.release()
    assert held.released


def test_a_loss_is_reported_also_if_the_connection_broke_meanwhile(valkey: Redis):
    """The release must not be sent on the broken one: then it would count as a repetition."""
    lock = RedisLock(valkey, "phone")
    lease = lock.acquire()
    assert RedisLock(valkey, "phone").force_release("the test wants it")
    valkey.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    eventually(lambda: all(link.is_readable(0) for link in lock.remote.transport._idle))
    with pytest.raises(LockLost):
        lease.release()


def test_a_late_answer_is_not_read_as_that_of_the_next_command(valkey, valkey_server):
    lock = RedisLock(connect(valkey_server.endpoint, timeout=0.5), "phone", owner="me")
    with lock:
        valkey.execute_command("CLIENT", "PAUSE", 700, "ALL")
        with pytest.raises(RedisTimeout):
            lock.remote.transport.run(("PING",), None, "")
        assert lock.owner() == "me"


async def test_waiters_ride_out_a_restart_within_their_deadline(own_valkey: Valkey):
    client = connect(own_valkey.endpoint)
    holder = RedisLock(client, "phone").acquire()
    heir = Task(lambda: RedisLock(client, "phone").acquire(timeout=30).release())
    async with connect_async(own_valkey.endpoint) as other:
        lock = AsyncRedisLock(other, "phone")
        waiting = asyncio.create_task(lock.acquire(timeout=30))
        await until_waiting(lock, 2)
        await asyncio.to_thread(own_valkey.kill)
        await asyncio.sleep(1.5)  # longer than two tries
        assert heir.is_alive()
        assert not waiting.done()
        await asyncio.to_thread(own_valkey.start)
        await (await waiting).release()
    await asyncio.to_thread(heir.result)
    with pytest.raises(LockLost):
        holder.release()


def test_a_waiter_whose_server_stays_away_fails_at_its_deadline(own_valkey: Valkey):
    client = connect(own_valkey.endpoint, timeout=0.2)
    lock = RedisLock(client, "phone")
    holder = lock.acquire()
    heir = Task(lambda: RedisLock(client, "phone").acquire(timeout=2))
    began = time.monotonic()
    eventually(lambda: lock.waiters() == 1)
    own_valkey.kill()
    with pytest.raises(LockUnavailable):
        heir.result()
    assert time.monotonic() - began >= 1.9
    with pytest.raises(LockUnavailable):
        holder.release()


def acquire_in_thread(url: str) -> None:
    with connect(url) as client:
        RedisLock(client, "phone").acquire(timeout=0.3)


def acquire_in_task(url: str) -> None:
    in_loop(url, lambda client: AsyncRedisLock(client, "phone").acquire(timeout=0.3))


PATIENT = "?socket_timeout=30&socket_connect_timeout=30"
each_way = pytest.mark.parametrize("acquire", [acquire_in_thread, acquire_in_task])


@each_way
def test_no_answer_is_awaited_past_the_deadline(own_valkey, acquire):
    with own_valkey.stopped(), pytest.raises(LockUnavailable):
        Task(acquire, own_valkey.endpoint + PATIENT).result(within=10)


@each_way
def test_one_answer_is_awaited_past_the_deadline_and_not_two(own_valkey, monkeypatch, acquire):
    """The server stops while the client waits in its last slice."""
    monkeypatch.setattr("locking.backends.redis_lease.ANSWER_GRACE", 1.0)
    held = RedisLock(own_valkey.endpoint, "phone", renew=False, lease=60)

    def waits() -> float:
        began = time.monotonic()
        with pytest.raises(LockUnavailable):
            acquire(own_valkey.endpoint + PATIENT)
        return time.monotonic() - began

    with held:
        waiting = Task(waits)
        eventually(lambda: held.waiters() == 1)
        with own_valkey.stopped():
            assert waiting.result(within=10) < 0.3 + 1.0 + 0.6
