"""The renewal: when it renews, when it stops, and what it says."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from math import inf
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis

from locking import LockLost, LockTimeout
from locking.backends.redis import RedisLease, RedisLock
from locking.redis_client import connect
from locking.renewal import MAX_SLEEP, Renewer
from locking.terms import Clock
from locking.tests.helpers import PROCESSES, Task, before_answer, eventually
from locking.tests.servers import Valkey

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


class Manual(Renewer):
    """A renewer without a thread, at a time of the test's own."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(Clock(monotonic=lambda: self.now))

    def _rouse(self, server):
        pass

    def run_round(self) -> float:
        [server] = self._servers.values()
        return self.renew_due(server)


class FakeLease:
    """A lease whose renewal is a call."""

    def __init__(self, renew: Callable[[], tuple[bool, float]], server: str = "one") -> None:
        self.renew, self.server = renew, server


def test_a_lease_is_renewed_when_due_and_not_before():
    renewer, renewed_at = Manual(), list[float]()

    def renew() -> tuple[bool, float]:
        renewed_at.append(renewer.now)
        return True, renewer.now + 5

    lease, later = FakeLease(renew), FakeLease(Mock())
    renewer.register("a", lease, due=1003)
    assert renewer.run_round() == 1000 + MAX_SLEEP
    for _ in range(10):
        renewer.run_round()
        renewer.now += 1
    assert renewed_at == [1003, 1008]
    renewer.register("b", later, due=1010.25)
    assert renewer.run_round() == 1010.25


def test_an_unresponsive_server_is_asked_once_per_round():
    renewer, renew = Manual(), Mock(return_value=(False, 1001))
    leases = [FakeLease(renew) for _ in range(5)]
    for number, lease in enumerate(leases):
        renewer.register(number, lease, due=1000)
    renewer.run_round()
    renew.assert_called_once()


def test_a_silent_server_does_not_delay_the_renewal_on_another():
    """It is asked in its own thread; the other server's leases are renewed meanwhile."""
    renewer, silent, renewed = Renewer(), threading.Event(), threading.Event()

    def stuck() -> tuple[bool, float]:
        silent.wait(20)
        return True, inf

    def healthy() -> tuple[bool, float]:
        renewed.set()
        return True, inf

    leases = FakeLease(stuck, "A"), FakeLease(healthy, "B")
    for number, lease in enumerate(leases):
        renewer.register(number, lease, due=0)
    assert renewed.wait(5)
    silent.set()


def test_a_servers_thread_ends_without_leases_and_starts_again(monkeypatch):
    monkeypatch.setattr("locking.renewal.MAX_IDLE", -1.0)
    renewer = Renewer()
    for _ in range(3):
        lease = FakeLease(renew := Mock(return_value=(True, inf)))
        renewer.register("a", lease, due=0)
        eventually(lambda: not renewer._servers)
        renew.assert_called_once()


def lock_with(store: Any, renewer: Renewer, **options: Any) -> RedisLock:
    lock = RedisLock(store, "phone", **options)
    lock.remote.renewer = renewer
    return lock


def manual_lock(store: Any, renewer: Manual, **options: Any) -> RedisLock:
    return lock_with(store, renewer, lease=9, clock=renewer.clock, **options)


@pytest.mark.parametrize("seconds", [90, 3])
def test_an_extended_lease_is_renewed_for_as_long_and_in_time(store: Redis, seconds: int):
    lease = manual_lock(store, renewer := Manual()).acquire()
    lease.extend(seconds)
    assert renewer.run_round() <= renewer.now + seconds / 3
    for _ in range(4):
        renewer.now += seconds / 3
        store.pexpire("lock:{phone}", seconds * 667)  # the server's clock follows ours
        renewer.run_round()
        assert lease.remaining() == seconds
    assert (seconds - 1) * 1000 < store.pttl("lock:{phone}") <= seconds * 1000


def test_an_extension_does_not_begin_a_renewal_that_was_turned_off(store: Redis):
    lease = RedisLock(store, "phone", renew=False).acquire()
    lease.extend(0.2)
    assert lease.lost.wait(timeout=5)
    with pytest.raises(LockLost):
        lease.release()


def test_a_renewal_does_not_shorten_what_the_server_keeps_longer(store: Redis):
    lease = manual_lock(store, renewer := Manual()).acquire()
    store.pexpire("lock:{phone}", 100_000)
    renewer.now += 3
    assert lease.renew() == (True, renewer.now + 3)
    assert store.pttl("lock:{phone}") > 90_000


def test_a_renewal_that_was_sent_before_an_extension_does_not_move_its_end(store: Redis):
    lock = lock_with(store, Manual(), lease=9)
    lease = lock.acquire()
    before_answer(lock, lambda: lease.extend(2))
    assert lease.renew()[1] < inf
    assert 1.9 < lease.remaining() <= 2


def test_a_renewal_that_its_release_overtakes_is_no_loss(store: Redis):
    lock = RedisLock(store, "phone")
    lease, outcomes = lock.acquire(), list[tuple[bool, float]]()
    before_answer(lock, lambda: outcomes.append(lease.renew()))
    lease.release()
    assert lease.released
    assert outcomes == [(True, inf)]


def test_a_renewal_does_not_exceed_max_hold(store: Redis):
    lease = manual_lock(store, renewer := Manual(), max_hold=20).acquire()
    for _ in range(2):
        renewer.now += 6.5
        store.pexpire("lock:{phone}", 2500)  # the server's clock follows ours
        assert lease.renew()[1] < inf
    assert lease.remaining() == 7  # up to 20 seconds, and no further
    renewer.now += 7
    assert lease.renew() == (True, inf)
    assert lease.lost.reason == "the lease ran out"


def test_an_extension_does_not_exceed_max_hold(store: Redis):
    lease = manual_lock(store, renewer := Manual(), max_hold=20).acquire()
    renewer.now += 5
    lease.extend(90)
    assert lease.remaining() == 15
    assert store.pttl("lock:{phone}") <= 15_000
    lease.extend(3)
    assert lease.remaining() == 3


@pytest.mark.parametrize("kept", [True, False])
def test_a_lease_outlives_its_thread_only_if_somebody_has_it(store: Redis, kept: bool):
    lock = manual_lock(store, renewer := Manual())
    thread = Task(lambda: lock.acquire() if kept else lock.acquire() and None)  # it stays as well
    lease = thread.result()
    for _ in range(4):
        renewer.now += 3
        renewer.run_round()
        left = store.pttl("lock:{phone}")
        store.pexpire("lock:{phone}", 4000)
    assert (left > 8000) is kept
    if kept:
        lease.release()


def test_an_unanswered_renewal_is_unknown_until_the_lease_expires(own_valkey: Valkey):
    client = connect(own_valkey.endpoint, timeout=0.1)
    lease = manual_lock(client, renewer := Manual()).acquire()
    with own_valkey.stopped():
        renewer.now += 3
        assert lease.renew() == (False, renewer.now + 1)
        assert lease.remaining() == 6
        renewer.now += 6
        assert lease.renew() == (True, inf)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_python_redis_lock_renewal_thread_dies_and_the_body_never_learns(valkey: Redis):
    class FragileOnce(Renewer):
        failures = 1

        def renew_due(self, server) -> float:
            if self.failures:
                self.failures -= 1
                raise SystemExit  # whatever may end a thread
            return super().renew_due(server)

    lock = lock_with(valkey, FragileOnce(), lease=0.3)
    lease = lock.acquire()
    assert lease.lost.wait(5)
    with pytest.raises(LockLost):
        lease.release()
    with lock.acquire(timeout=5) as later:  # starts another thread
        assert not later.lost.wait(0.7)


def test_renewer_goes_on_after_an_unforeseen_error(caplog):
    renewer, renewed = Manual(), list[float]()

    def fail() -> tuple[bool, float]:
        raise RuntimeError("unforeseen")

    def renew() -> tuple[bool, float]:
        renewed.append(renewer.now)
        return True, inf

    broken, fine = FakeLease(fail), FakeLease(renew)
    renewer.register("broken", broken, due=1000)
    renewer.register("fine", fine, due=1000)
    assert renewer.run_round() == 1000  # the server may be silent: the next round asks again
    assert "unforeseen" in caplog.text
    assert renewer.run_round() == 1000 + MAX_SLEEP
    assert renewed == [1000]


def test_redisson_7272_watchdog_outlives_the_unlock(valkey: Redis):
    renewer = Renewer()
    lock = lock_with(valkey, renewer, lease=0.3)
    lock.acquire().release()
    assert not renewer._servers[id(lock.remote.transport)].entries
    valkey.set("lock:{phone}", "1:a-token:another", px=200)
    eventually(lambda: not valkey.exists("lock:{phone}"), within=2)


def use_after_fork(store: Redis, lock: RedisLock, lease: RedisLease) -> None:
    assert lease.lost.is_set()
    with pytest.raises(LockLost):
        lease.release()
    with pytest.raises(LockTimeout):
        lock.acquire(timeout=0)
    assert {link.connection.pid for link in lock.remote.transport._idle} == {os.getpid()}
    with RedisLock(store, "child", lease=0.3).acquire() as own:
        assert not own.lost.wait(0.7)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_own_its_parents_lease_and_renews_its_own(store: Redis):
    lock = RedisLock(store, "phone", lease=0.5)
    with lock.acquire() as lease:
        fork = PROCESSES.get_context("fork")
        child = fork.Process(target=use_after_fork, args=(store, lock, lease))
        child.start()
        child.join(20)
        assert child.exitcode == 0
        lease.check()
        assert lock.locked()
    eventually(lambda: not lock.locked())
