"""The production lock on a real server: exclusion, order, fence."""

from __future__ import annotations

import time
from math import inf, nan

import pytest

from locking import Hooks, LockError, LockLost, LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import Grant
from locking.backends.redis_shared import RedisWriteLock
from locking.redis_client import connect
from locking.terms import Clock
from locking.tests.helpers import Around, Task, TransportWithPop, ask, eventually, fence, lock_on

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


def test_an_uncontended_pass_costs_two_commands_and_leaves_only_the_fence(store):
    lock = lock_on(store)
    lock.acquire().release()
    before = store.info("commandstats")["cmdstat_evalsha"]["calls"]
    lock.acquire().release()
    assert store.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 2
    assert store.keys() == [b"lock:{phone}:fence"]
    assert 0 < store.ttl("lock:{phone}:fence") <= 3600


def test_a_hand_over_costs_the_next_holder_two_commands(store):
    lock_on(store).acquire().release()
    holder = lock_on(store).acquire()
    heir = Task(lambda: lock_on(store).acquire(timeout=10))
    eventually(lambda: store.info("clients")["blocked_clients"] == 1)
    stats = store.info("commandstats")
    before = stats["cmdstat_evalsha"]["calls"]
    holder.release()
    lease = heir.result()
    stats = store.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == before + 1  # the release alone
    assert lease.token > holder.token
    lease.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_the_fence_is_not_lower_after_the_server_lost_everything(store):
    first = fence(lock_on(store).acquire())
    store.flushall()
    assert fence(lock_on(store).acquire(timeout=0)) > first


def test_the_fence_grows_also_when_the_servers_clock_has_stepped_back(store):
    future = int(time.time() * 1e6) + 60_000_000
    store.set("lock:{phone}:fence", future)
    with lock_on(store).acquire() as lease:
        assert lease.token == future + 1


def test_an_unfair_lock_lets_newcomers_overtake_waiters(store):
    lock = lock_on(store, fair=False)
    holder = lock.acquire()
    waiting = Task(lambda: lock_on(store, fair=False).acquire(timeout=20))
    eventually(lambda: lock.waiters() == 1)
    store.delete("lock:{phone}")  # free, and nobody has been told yet
    passing = lock_on(store, fair=False).acquire(timeout=0)
    passing.release()
    waiting.result().release()
    with pytest.raises(LockLost):
        holder.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_a_fair_lock_lets_no_newcomer_overtake_waiters(store):
    lock = lock_on(store)
    holder = lock.acquire()
    waiting = Task(lambda: lock_on(store).acquire(timeout=20))
    eventually(lambda: lock.waiters() == 1)
    store.delete("lock:{phone}")
    with pytest.raises(LockTimeout):
        lock_on(store).acquire(timeout=0)  # it hands the lock to the first in line
    waiting.result(within=5).release()
    with pytest.raises(LockLost):
        holder.release()


@pytest.mark.parametrize(
    "modes", [(True,), (False,), (True, False)], ids=["fair", "unfair", "mixed"]
)
def test_only_one_of_many_threads_is_inside_whatever_their_modes(store, modes):
    locks = [lock_on(store, fair=fair) for fair in modes]
    inside: list[int] = []
    worst: list[int] = []

    def enter(lock: RedisLock) -> None:
        for _ in range(50):
            with lock.acquire(timeout=20):
                inside.append(1)
                worst.append(len(inside))
                time.sleep(0)
                inside.pop()

    for task in [Task(enter, locks[number % len(locks)]) for number in range(8)]:
        task.result(within=60)
    assert len(worst) == 400
    assert max(worst) == 1
    assert store.keys() == [b"lock:{phone}:fence"]


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("timeout", [0, 0.2])
def test_a_foreign_key_at_the_locks_name_is_not_overwritten(store, fair, timeout):
    store.hset("lock:{phone}", "size", "6")
    lock = lock_on(store, fair=fair)
    for call in (lambda: lock.acquire(timeout=timeout), lock.owner):
        with pytest.raises(LockError, match="holds something else"):
            call()
    assert store.hgetall("lock:{phone}") == {b"size": b"6"}
    store.delete("lock:{phone}")
    lock.acquire(timeout=0).release()


def test_a_foreign_value_at_the_locks_name_has_a_readable_owner(store):
    """As python-redis-lock's ids were once, which are no text."""
    store.set("lock:{phone}", b"\xd6{\xff")
    assert RedisLock(store, "phone").owner() == "\\xd6{\\xff"
    with pytest.raises(LockTimeout):
        RedisLock(store, "phone").acquire(timeout=0)


# -- leases


def test_the_renewal_tells_the_body_that_the_lock_was_taken_away(store):
    lost: list[tuple[str, str]] = []

    class Watch(Hooks):
        def lost(self, name: str, reason: str) -> None:
            lost.append((name, reason))

    lease = lock_on(store, lease=0.6, hooks=Watch()).acquire()
    assert lock_on(store).force_release("the test wants it")
    assert lease.lost.wait(5)
    assert lost == [("phone", "the server no longer knows it")]


@pytest.mark.parametrize(
    ("lease", "max_hold"),
    [(0, None), (-1, None), (10, 0), (inf, None), (nan, None), (10, nan), (1e300, None)],
)
def test_a_lease_without_length_is_refused(store, lease, max_hold):
    with pytest.raises(ValueError, match="above zero"):
        lock_on(store, lease=lease, max_hold=max_hold)


def test_a_handed_over_lease_counts_from_the_hand_over_not_from_the_wake_up(store):
    """A process that is paused after its predecessor let go must not trust the lease for longer."""
    holder = lock_on(store).acquire()
    lock = lock_on(store, lease=1, renew=False)
    transport = lock.remote.transport

    def slow_pop(key: str, seconds: float):
        holder.release()
        handed_over = time.monotonic()
        eventually(lambda: time.monotonic() > handed_over + 0.4)
        return transport.pop(key, seconds)

    lock.remote.transport = TransportWithPop(transport, slow_pop)
    lease = lock.acquire(timeout=10)
    assert lease.remaining() <= 0.6
    assert lease.remaining() * 1000 <= store.pttl("lock:{phone}") + 5
    lease.release()


def test_a_hand_over_that_expired_before_its_wake_up_grants_nothing(store):
    holder = lock_on(store).acquire()
    lock = lock_on(store, lease=0.2, renew=False)
    transport = lock.remote.transport
    handed_over: list[bytes] = []

    def too_slow_once(key: str, seconds: float):
        if handed_over:
            return transport.pop(key, seconds)
        holder.release()
        handed_over.append(store.get("lock:{phone}:fence"))
        message = transport.pop(key, seconds)
        eventually(lambda: not store.exists("lock:{phone}"))
        return message

    lock.remote.transport = TransportWithPop(transport, too_slow_once)
    lease = lock.acquire(timeout=10)
    assert fence(lease) > int(handed_over[0]) > fence(holder)
    lease.release()


# -- grants whose answer takes longer than the lease


LEASE = 0.3


class Slow(Around):
    """A transport that keeps the answers to the first calls back."""

    def __init__(self, transport, late: int, seconds: float) -> None:
        super().__init__(transport)
        self._late, self._seconds = late, seconds

    def run(self, *args):
        answer = self.transport.run(*args)
        if self._late:
            self._late -= 1
            time.sleep(self._seconds)
        return answer


def steps_of(clock: list[float], timeout: float):
    lock = RedisLock("redis://nowhere", "n", lease=1.0, clock=Clock(monotonic=lambda: clock[0]))
    return lock.granting("t:o", None, timeout)


def test_a_late_grant_is_confirmed_by_asking_again():
    clock = [0.0]
    steps = steps_of(clock, timeout=10.0)
    first = next(steps)
    clock[0] = 1.5
    again = steps.send([7])
    assert again[1][0] == first[1][0]
    clock[0] = 1.6
    with pytest.raises(StopIteration) as done:
        steps.send([7])
    assert done.value.value == Grant(7, 1.5)


def test_a_late_grant_at_the_last_try_fails():
    clock = [0.0]
    steps = steps_of(clock, timeout=0.0)
    next(steps)
    clock[0] = 1.5
    _, (*_, script) = steps.send([7])
    assert script == "release"
    with pytest.raises(LockTimeout):
        steps.send(1)


def test_acquire_never_returns_an_expired_lease(valkey):
    lock = RedisLock(valkey, "phone", lease=LEASE, renew=False)
    lock.remote.transport = Slow(lock.remote.transport, late=1, seconds=2 * LEASE)
    with lock.acquire(timeout=5) as lease:
        assert lease.remaining() > 0
        lease.check()


def test_a_grant_that_came_too_late_is_released(valkey):
    lock = RedisLock(valkey, "phone", lease=LEASE, renew=False)
    lock.remote.transport = Slow(lock.remote.transport, late=1, seconds=LEASE)
    with pytest.raises(LockTimeout):
        lock.acquire(timeout=0)
    assert lock.owner() is None
    assert RedisLock(connect(valkey_url(valkey)), "phone").acquire(timeout=0).token


def valkey_url(client) -> str:
    where = client.connection_pool.connection_kwargs
    return f"redis://{where['host']}:{where['port']}/{where.get('db', 0)}"


@pytest.mark.parametrize("kind", [RedisLock, RedisWriteLock])
def test_a_grant_that_is_asked_for_again_restarts_its_lease(valkey, kind):
    """The client counts it from the second request, because the first had no answer."""
    lock = kind(valkey, "phone")
    request = (lock.new_holder(), "10000", "f", "1")
    ask(lock, lock.scripts.acquire, *request)
    valkey.pexpire(lock.remote.keys[0], 1000)
    assert ask(lock, lock.scripts.acquire, *request)[0]
    assert valkey.pttl(lock.remote.keys[0]) > 9000
