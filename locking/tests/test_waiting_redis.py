"""What may go wrong while clients wait: waiters and heirs that die, revocations, lost servers."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import nullcontext
from functools import partial

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from locking import Lease, LockLost, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_shared import RedisSemaphore, RedisWriteLock
from locking.redis_client import connect, connect_async
from locking.tests.helpers import (
    Interrupted,
    Task,
    TransportWithPop,
    ask,
    eventually,
    interrupt_next,
    until_waiting,
)
from locking.tests.servers import Valkey

KINDS = [RedisLock, RedisWriteLock, lambda client, name: RedisSemaphore(client, name, 1)]
IDS = ["mutex", "write", "semaphore"]


def die_waiting(lock: RedisLock) -> None:
    """Leave what a waiter leaves that was killed between two of its commands."""
    answer = ask(lock, lock.scripts.acquire, lock.new_holder(), "10000", "f", "1")
    assert not answer[0]


def has_waiters(lock: RedisLock, count: int) -> bool:
    return lock.waiters() == count


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
@pytest.mark.parametrize("dead", [1, 60])
def test_a_living_waiter_behind_many_dead_ones_enters_long_before_their_leases_end(
    valkey: Redis, kind, dead: int
):
    holder = kind(valkey, "phone").acquire()
    for _ in range(dead):
        die_waiting(kind(valkey, "phone"))
    heir = Task(lambda: kind(valkey, "phone").acquire(timeout=30))
    eventually(lambda: kind(valkey, "phone").waiters() == dead + 1)
    holder.release()
    heir.result(within=5).release()  # each of them has a lease of ten seconds


def test_redisson_3004_and_6150_ghosts_stay_in_the_fair_queue(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    with lock:
        for _ in range(2):
            die_waiting(lock)
        heir = Task(lambda: RedisLock(valkey, "phone").acquire(timeout=90).release())
        eventually(lambda: lock.waiters() == 3)
        eventually(lambda: lock.waiters() == 1)
    heir.result()
    assert valkey.keys() == [b"lock:{phone}:fence"]


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_an_heir_that_was_passed_over_neither_enters_nor_loses_its_place(valkey: Redis, kind):
    """It is paused before it reads its grant; meanwhile the next one gets the lock."""
    holder = kind(valkey, "phone").acquire()
    slow, woken = kind(valkey, "phone"), threading.Event()
    transport = slow.remote.transport

    def wait_for_the_test(key: str, seconds: float):
        return transport.pop(key, seconds) if woken.wait(20) else None

    slow.remote.transport = TransportWithPop(transport, wait_for_the_test)
    paused = Task(lambda: slow.acquire(timeout=60))
    eventually(lambda: slow.waiters() == 1)
    others = []
    for number in (2, 3):
        others.append(Task(lambda: kind(valkey, "phone").acquire(timeout=60)))
        eventually(partial(has_waiters, slow, number))
    holder.release()
    eventually(lambda: any(not each.is_alive() for each in others))
    woken.set()
    second = next(each for each in others if not each.is_alive()).result()
    third = next(each for each in others if each.is_alive())
    eventually(lambda: slow.waiters() == 2)
    eventually(lambda: not valkey.keys("*:wake:*"))  # it has read that it must ask again
    assert paused.is_alive()
    second.release()
    first = paused.result()
    assert third.is_alive()
    first.release()
    third.result().release()


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_an_evicted_heir_does_not_enter_by_an_old_message(valkey: Redis, kind):
    """It is revoked before it has read its grant, asks, is told no, and then reads."""
    holder = kind(valkey, "phone").acquire()
    heir = kind(valkey, "phone")
    transport = heir.remote.transport
    pops: list[str] = []
    others: list[Lease] = []

    def revoked_before_it_reads(key: str, seconds: float):
        if not pops:
            pops.append(key)
            holder.release()
            heir.force_release("the test wants it")
            assert not valkey.exists(key)
            others.append(kind(valkey, "phone").acquire(timeout=5))
            return None  # the slice is over, and it asks again
        return transport.pop(key, seconds)

    heir.remote.transport = TransportWithPop(transport, revoked_before_it_reads)
    with pytest.raises(LockTimeout):
        heir.acquire(timeout=1)
    others[0].release()


@pytest.mark.parametrize("kind", [RedisLock, RedisWriteLock])
def test_a_revoked_lock_is_the_next_waiters_at_once(valkey: Redis, kind):
    lock = kind(valkey, "phone")
    lease = lock.acquire()
    die_waiting(lock)
    assert lock.waiters() == 1
    assert lock.force_release("the test wants it")
    assert (lock.waiters(), bool(lock.owner())) == (0, True)
    with pytest.raises(LockLost):
        lease.release()


@pytest.mark.parametrize("kind", [RedisLock, RedisWriteLock])
def test_a_queue_in_which_an_heir_was_put_back_expires(valkey: Redis, kind):
    """Even if it is the only one in it, and nobody comes again."""
    lock = kind(valkey, "phone")
    lease = lock.acquire()
    die_waiting(lock)
    lease.release()
    queue = lock.remote.keys[2]

    def put_back() -> bool:
        with pytest.raises(LockTimeout):
            kind(valkey, "phone").acquire(timeout=0)
        return bool(valkey.exists(queue))

    eventually(put_back)
    assert valkey.pttl(queue) > 0
    assert valkey.pttl(lock.remote.keys[3]) > 0


@pytest.mark.parametrize(
    ("sent", "lease", "lost"),
    [(True, 10, None), (False, 10, "flushed"), (False, 0.02, "ran out")],
)
def test_an_interrupted_release_that_is_repeated_reports_only_a_true_loss(
    valkey: Redis, sent, lease, lost
):
    lock = RedisLock(valkey, "phone", lease=lease, renew=False)
    held = lock.acquire()
    if lost == "ran out":
        eventually(lambda: not valkey.exists("lock:{phone}"))
    interrupt_next(lock, Interrupted(), sent=sent)
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


def test_a_late_answer_is_not_read_as_that_of_the_next_command(
    valkey: Redis, valkey_server: Valkey
):
    with connect(valkey_server.endpoint, timeout=0.5) as client:
        lock = RedisLock(client, "phone", owner="me")
        with lock:
            valkey.execute_command("CLIENT", "PAUSE", 700, "ALL")
            with pytest.raises(RedisTimeout):
                lock.remote.transport.run(("PING",), None, None, "")
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


async def test_no_answer_is_awaited_past_the_deadline(own_valkey: Valkey):
    """The server stops answering; the client's own time-out would be half a minute."""
    with connect(own_valkey.endpoint, timeout=30) as client:
        lock = RedisLock(client, "phone")
        lock.acquire().release()
        async with connect_async(own_valkey.endpoint, timeout=30) as other:
            with own_valkey.stopped():
                with pytest.raises(LockUnavailable):
                    Task(lambda: lock.acquire(timeout=0.3)).result(within=10)
                with pytest.raises(LockUnavailable):
                    async with asyncio.timeout(10):
                        await AsyncRedisLock(other, "phone").acquire(timeout=0.3)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_answer_is_awaited_past_the_deadline_and_not_two(
    own_valkey: Valkey, monkeypatch, asynchronous: bool
):
    """The server stops while the client waits in its last slice."""
    monkeypatch.setattr("locking.backends.redis_lease.ANSWER_GRACE", 1.0)
    client = connect(own_valkey.endpoint, timeout=30)
    held = RedisLock(client, "phone", renew=False, lease=60)
    lease = held.acquire()

    def acquire() -> None:
        RedisLock(client, "phone").acquire(timeout=0.3)

    async def acquire_in_task() -> None:
        async with connect_async(own_valkey.endpoint, timeout=30) as other:
            await AsyncRedisLock(other, "phone").acquire(timeout=0.3)

    def waits() -> float:
        began = time.monotonic()
        with pytest.raises(LockUnavailable):
            asyncio.run(acquire_in_task()) if asynchronous else acquire()
        return time.monotonic() - began

    waiting = Task(waits)
    eventually(lambda: held.waiters() == 1)
    with own_valkey.stopped():
        assert waiting.result(within=10) < 0.3 + 1.0 + 0.6
    lease.release()
    client.close()
