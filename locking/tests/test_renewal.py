"""Renewal: a living holder keeps its lease, a dropped one does not, and losses are noticed."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
from redis import Redis

import locking.redis_lock
from locking import LockLost
from locking.redis_lock import RedisLock, Renewer
from locking.tests.helpers import Task, eventually, until_renewed

pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")

LOCK = "lock:{phone}"


def passes(seconds: float) -> bool:
    """Wait so long; for use as a condition, return True."""
    until = time.monotonic() + seconds
    return bool(eventually(lambda: time.monotonic() > until))


def test_living_holder_keeps_its_lease(side: Any, store: Redis) -> None:
    lease = side.lock(lease=3).acquire()
    for _renewal in range(3):
        until_renewed(lease)
    lease.check()
    assert store.exists(LOCK)
    lease.release()


def test_unrenewed_lease_ends(side: Any, store: Redis) -> None:
    lease = side.lock(lease=0.3, renew=False).acquire()
    assert lease.lost.wait(20)
    assert lease.lost.reason == "its time is over"
    with pytest.raises(LockLost):
        lease.release()
    eventually(lambda: not store.exists(LOCK))


def test_unrenewed_lease_stays_so_when_extended(side: Any, store: Redis) -> None:
    lease = side.lock(lease=5, renew=False).acquire()
    lease.extend(0.4)
    assert lease.lost.wait(20)
    eventually(lambda: not store.exists(LOCK))


def test_sherlock_66_renewal_releases(side: Any, store: Redis) -> None:
    """A renewal extends what is there, and nothing else."""
    lease = side.lock(lease=3).acquire()
    value = store.get(LOCK)
    until_renewed(lease)
    assert store.get(LOCK) == value
    lease.release()


def test_python_redis_lock_body_learns_of_the_loss(side: Any, store: Redis) -> None:
    lease = side.lock(lease=0.6).acquire()
    store.set(LOCK, "1:somebody:else")
    assert lease.lost.wait(20)
    assert "no longer knows" in lease.lost.reason
    with pytest.raises(LockLost):
        lease.check()
    assert store.get(LOCK) == b"1:somebody:else"


def test_redisson_7272_watchdog_outlives_the_release(side: Any, store: Redis) -> None:
    lock = side.lock(lease=0.6)
    lock.acquire().release()
    with RedisLock(store, "phone", lease=30, renew=False).acquire():
        end = store.pttl(LOCK)
        assert passes(0.4)  # the first one's renewals came twice as often
        assert store.pttl(LOCK) < end


def test_extension_is_renewed_for_its_own_length(side: Any, store: Redis) -> None:
    lease = side.lock(lease=30).acquire()
    lease.extend(3)
    until_renewed(lease)
    lease.check()
    assert 0 < store.pttl(LOCK) <= 3000
    lease.release()


def test_dropped_lease_is_not_renewed(store: Redis) -> None:
    leases = [RedisLock(store, "phone", lease=0.6).acquire()]
    leases.clear()
    gc.collect()
    eventually(lambda: not store.exists(LOCK))


def test_end_counts_from_before_the_command(store: Redis, monkeypatch: Any) -> None:
    """Otherwise a slow answer would let the holder trust its lease for too long."""
    real, asked_at = locking.redis_lock.run, []

    def slow(*words: Any, **options: Any) -> Any:
        asked_at.append(time.monotonic())
        answer = real(*words, **options)
        assert passes(0.3)
        return answer

    monkeypatch.setattr(locking.redis_lock, "run", slow)
    lease = RedisLock(store, "phone", lease=5, renew=False).acquire()
    assert lease._deadline <= asked_at[0] + 5
    lease.extend(5)
    assert lease._deadline <= asked_at[1] + 5
    left = store.pttl(LOCK) / 1000
    assert lease.remaining() <= left + 0.001
    lease.release()


def test_renewed_end_counts_from_before_the_command(store: Redis, monkeypatch: Any) -> None:
    lock = RedisLock(store, "phone", lease=5, renew=False)
    lease = lock.acquire()
    before = time.monotonic()
    real = locking.redis_lock.run

    def slow(*words: Any, **options: Any) -> Any:
        answer = real(*words, **options)
        assert passes(0.3)
        return answer

    monkeypatch.setattr(locking.redis_lock, "run", slow)
    lease.renew()
    assert lease._deadline <= before + 0.2 + 5
    lease.release()


def test_retired_thread_is_followed_by_another(store: Redis, monkeypatch: Any) -> None:
    monkeypatch.setattr(locking.redis_lock, "MAX_IDLE", -1.0)
    monkeypatch.setattr(locking.redis_lock, "MAX_SLEEP", 0.01)
    lock = RedisLock(store, "phone", lease=3)
    lock.renewer = Renewer()
    for _ in range(3):
        lease = lock.acquire()
        until_renewed(lease)
        lease.check()
        lease.release()
        eventually(lambda: lock.renewer._thread is None)


def test_lease_registered_while_the_thread_retires_is_renewed(
    store: Redis, monkeypatch: Any
) -> None:
    """The thread has seen no lease, and has not yet said that it ends."""
    monkeypatch.setattr(locking.redis_lock, "MAX_IDLE", -1.0)
    renewer = Renewer()
    lock = RedisLock(store, "phone", lease=3)
    lock.renewer = renewer
    registered: list[Any] = []
    real = Renewer.renew_due

    def renew_due(self: Renewer) -> float:
        found = real(self)
        if not registered:
            registered.append(lock.acquire())
        return found

    monkeypatch.setattr(Renewer, "renew_due", renew_due)
    first = RedisLock(store, "first", lease=5)
    first.renewer = renewer
    first.acquire().release()
    lease = eventually(lambda: registered and registered[0])
    until_renewed(lease)
    lease.check()
    lease.release()


def test_silent_server_does_not_delay_the_leases_of_another(store: Redis, own_valkey: Any) -> None:
    with Redis.from_url(own_valkey.endpoint, socket_timeout=0.5) as other:
        silent = [RedisLock(other, f"item:{n}", lease=0.9).acquire() for n in range(6)]
        kept = RedisLock(store, "phone", lease=3).acquire()
        with own_valkey.stopped():
            assert passes(5)
            kept.check()
        kept.release()
        assert any(lease.lost.is_set() for lease in silent)


def test_interrupted_block_is_not_renewed(store: Redis) -> None:
    """As if a signal's exception came before the first line of what ends the block."""
    lock = RedisLock(store, "phone", lease=0.6)
    blocks = [lock.__exit__]  # what a `with` statement looks up first
    lock.__enter__()
    assert store.exists(LOCK)
    blocks.clear()
    gc.collect()
    eventually(lambda: not store.exists(LOCK))


def test_interrupt_at_thread_start_is_raised_as_itself(
    store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a signal's exception came where `Thread.start` stumbles over it."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            del dict[Any, Any]()[thread]

    lock = RedisLock(store, "phone", lease=0.6)
    lock.renewer = Renewer()
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    eventually(lambda: not store.exists(LOCK))


def test_exit_stack_may_hold_a_handle(store: Redis) -> None:
    from contextlib import ExitStack

    with ExitStack() as stack:
        lease = stack.enter_context(RedisLock(store, "phone"))
        lease.check()
        assert store.exists(LOCK)
    assert not store.exists(LOCK)


def test_block_may_end_in_another_thread(store: Redis) -> None:
    lock = RedisLock(store, "phone")

    def generator() -> Any:
        with lock as lease:
            yield lease

    running = generator()
    next(running)
    Task(lambda: next(running, None)).result()
    assert not store.exists(LOCK)


def test_lock_without_renewal_starts_no_thread(store: Redis) -> None:
    lock = RedisLock(store, "phone", renew=False)
    lock.renewer = Renewer()
    lock.acquire().release()
    assert lock.renewer._thread is None
