"""The renewal: when it renews, when it stops, and what it says."""

from __future__ import annotations

import os
import threading
from math import inf

import pytest
from redis import Redis

from locking import Hooks, LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.redis_client import connect
from locking.renewal import MAX_SLEEP, Renewal, Renewer
from locking.terms import Clock
from locking.tests.helpers import PROCESSES, Task, before_answer, eventually, lock_on
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
    server = "one"

    def __init__(self, renewer: Manual, *outcomes: tuple[Renewal, float]) -> None:
        self.renewer = renewer
        self.outcomes = list(outcomes)
        self.renewed_at: list[float] = []

    def renew(self) -> tuple[Renewal, float]:
        self.renewed_at.append(self.renewer.now)
        outcome, after = self.outcomes.pop(0)
        return outcome, self.renewer.now + after


def test_a_lease_is_renewed_when_due_and_not_before():
    renewer = Manual()
    lease = FakeLease(renewer, (Renewal.RENEWED, 5), (Renewal.RENEWED, 5))
    renewer.register("a", lease, due=1003)
    assert renewer.run_round() == 1000 + MAX_SLEEP
    for _ in range(10):
        renewer.run_round()
        renewer.now += 1
    assert lease.renewed_at == [1003, 1008]
    later = FakeLease(renewer)
    renewer.register("b", later, due=1010.25)
    assert renewer.run_round() == 1010.25


def test_an_unresponsive_server_is_asked_once_per_round():
    renewer = Manual()
    leases = [FakeLease(renewer, (Renewal.UNKNOWN, 1)) for _ in range(5)]
    for number, lease in enumerate(leases):
        renewer.register(number, lease, due=1000)
    renewer.run_round()
    assert sum(len(lease.renewed_at) for lease in leases) == 1


def test_a_silent_server_does_not_delay_the_renewal_on_another():
    """It is asked in its own thread; the other server's leases are renewed meanwhile."""
    renewer, silent = Renewer(), threading.Event()
    renewed = threading.Event()

    class Lease:
        def __init__(self, server: str, act) -> None:
            self.server, self.act = server, act

        def renew(self) -> tuple[Renewal, float]:
            self.act()
            return Renewal.RENEWED, inf

    stuck, healthy = Lease("A", lambda: silent.wait(20)), Lease("B", renewed.set)
    renewer.register("stuck", stuck, due=0)
    renewer.register("healthy", healthy, due=0)
    assert renewed.wait(5)
    assert not silent.is_set()
    silent.set()


def test_a_servers_thread_ends_without_leases_and_starts_again(monkeypatch):
    monkeypatch.setattr("locking.renewal.MAX_IDLE", -1.0)
    renewer, renewed = Renewer(), threading.Event()

    class Lease:
        server = "A"

        def renew(self) -> tuple[Renewal, float]:
            renewed.set()
            return Renewal.LOST, inf

    for _ in range(3):
        lease = Lease()
        renewed.clear()
        renewer.register("a", lease, due=0)
        assert renewed.wait(5)
        eventually(lambda: not renewer._servers)


def redis_lease(store: Redis, renewer: Manual, **options):
    clock = Clock(monotonic=lambda: renewer.now)
    lock = lock_on(store, "phone", lease=9, renewer=renewer, clock=clock, **options)
    return lock.acquire()


def test_a_renewal_moves_the_expiry(store: Redis):
    renewer = Manual()
    lease = redis_lease(store, renewer)
    store.pexpire("lock:{phone}", 4000)
    renewer.now += 5
    assert lease.renew() == (Renewal.RENEWED, renewer.now + 3)
    assert lease.remaining() == 9
    assert 8000 < store.pttl("lock:{phone}") <= 9000


@pytest.mark.parametrize("seconds", [90, 3])
def test_an_extended_lease_is_renewed_for_as_long_and_in_time(store: Redis, seconds: int):
    lease = redis_lease(store, renewer := Manual())
    lease.extend(seconds)
    assert renewer.run_round() <= renewer.now + seconds / 3
    for _ in range(4):
        renewer.now += seconds / 3
        store.pexpire("lock:{phone}", seconds * 667)  # the server's clock follows ours
        renewer.run_round()
        assert lease.remaining() == seconds
    assert (seconds - 1) * 1000 < store.pttl("lock:{phone}") <= seconds * 1000


def test_a_renewal_does_not_shorten_what_the_server_keeps_longer(store: Redis):
    lease = redis_lease(store, renewer := Manual())
    store.pexpire("lock:{phone}", 100_000)
    renewer.now += 3
    assert lease.renew() == (Renewal.HELD, renewer.now + 3)
    assert store.pttl("lock:{phone}") > 90_000


def test_a_renewal_that_was_sent_before_an_extension_does_not_move_its_end(store: Redis):
    lock = lock_on(store, "phone", lease=9, renewer=Manual())
    lease = lock.acquire()
    before_answer(lock, lambda: lease.extend(2))
    assert lease.renew()[0] is Renewal.RENEWED
    assert 1.9 < lease.remaining() <= 2


def test_a_renewal_that_its_release_overtakes_is_no_loss(store: Redis):
    lock = RedisLock(store, "phone")
    lease, outcomes = lock.acquire(), list[Renewal]()
    before_answer(lock, lambda: outcomes.append(lease.renew()[0]))
    lease.release()
    assert lease.released
    assert outcomes == [Renewal.LOST]


def test_a_renewal_does_not_exceed_max_hold(store: Redis):
    lease = redis_lease(store, renewer := Manual(), max_hold=20)
    for _ in range(2):
        renewer.now += 6.5
        store.pexpire("lock:{phone}", 2500)  # the server's clock follows ours
        assert lease.renew()[0] is Renewal.RENEWED
    assert lease.remaining() == 7  # up to 20 seconds, and no further
    renewer.now += 7
    assert lease.renew()[0] is Renewal.LOST
    assert lease.lost.reason == "the lease ran out"


def test_an_extension_does_not_exceed_max_hold(store: Redis):
    lease = redis_lease(store, renewer := Manual(), max_hold=20)
    renewer.now += 5
    lease.extend(90)
    assert lease.remaining() == 15
    assert store.pttl("lock:{phone}") <= 15_000
    lease.extend(3)
    assert lease.remaining() == 3


@pytest.mark.parametrize("kept", [True, False])
def test_a_lease_outlives_its_thread_only_if_somebody_has_it(store: Redis, kept: bool):
    renewer = Manual()
    clock = Clock(monotonic=lambda: renewer.now)
    lock = lock_on(store, "phone", lease=9, renewer=renewer, clock=clock)
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
    failures = []

    class Watch(Hooks):
        def renewal_failed(self, name: str, error: Exception) -> None:
            failures.append(type(error).__name__)

    client = connect(own_valkey.endpoint, timeout=0.1)
    assert isinstance(client, Redis)
    lease = redis_lease(client, renewer := Manual(), hooks=Watch())
    with own_valkey.stopped():
        renewer.now += 3
        assert lease.renew() == (Renewal.UNKNOWN, renewer.now + 1)
        assert failures == ["LockUnavailable"]
        assert lease.remaining() == 6
        renewer.now += 6
        assert lease.renew() == (Renewal.LOST, inf)


def test_a_renewal_detects_that_the_server_lost_the_lease(store: Redis):
    lease = redis_lease(store, renewer := Manual())
    store.set("lock:{phone}", "9:another:one")
    renewer.now += 3
    assert lease.renew() == (Renewal.LOST, inf)
    assert store.get("lock:{phone}") == b"9:another:one"
    with pytest.raises(LockLost):
        lease.check()


def in_forked_child(store: Redis, lock: RedisLock, lease, answers) -> None:
    answers.put(lease.lost.is_set())
    try:
        lease.release()
    except LockLost:
        answers.put("LockLost")
    try:
        lock.acquire(timeout=0)
    except LockTimeout:
        answers.put("LockTimeout")
    answers.put({link.connection.pid for link in lock.remote.transport._idle} == {os.getpid()})
    with RedisLock(store, "child", lease=0.3).acquire() as own:
        answers.put(own.lost.wait(0.7))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_own_its_parents_lease_and_renews_its_own(store: Redis):
    context = PROCESSES.get_context("fork")
    answers = context.SimpleQueue()
    lock = RedisLock(store, "phone", lease=0.5)
    with lock.acquire() as lease:
        child = context.Process(target=in_forked_child, args=(store, lock, lease, answers))
        child.start()
        child.join(20)
        assert child.exitcode == 0
        assert [answers.get() for _ in range(5)] == [True, "LockLost", "LockTimeout", True, False]
        lease.check()
        assert lock.owner() is not None
    eventually(lambda: lock.owner() is None)
