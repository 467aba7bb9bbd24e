"""The production lock on a real server: exclusion, order, fence."""

from __future__ import annotations

import time

import pytest
import redis

from locking import LockError, LockLost, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.redis_client import connect
from locking.tests.helpers import Task, eventually, fence, lock_on
from locking.tests.servers import free_port

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


def test_the_fence_grows_with_every_grant(store):
    tokens: list[int] = []
    for _ in range(100):
        with lock_on(store).acquire() as lease:
            tokens.append(fence(lease))
    assert tokens == sorted(set(tokens))


def test_the_fence_is_not_lower_after_the_server_lost_everything(store):
    first = fence(lock_on(store).acquire())
    store.flushall()
    assert fence(lock_on(store).acquire(timeout=0)) > first


def test_the_fence_grows_also_when_the_servers_clock_has_stepped_back(store):
    future = int(time.time() * 1e6) + 60_000_000
    store.set("lock:{phone}:fence", future)
    with lock_on(store).acquire() as lease:
        assert lease.token == future + 1


def test_an_interrupted_waiter_leaves_nothing_behind(store, monkeypatch):
    class Interrupted(BaseException):
        pass

    holder = lock_on(store).acquire()
    lock = lock_on(store)

    def interrupt(*args: object) -> None:
        raise Interrupted

    monkeypatch.setattr(lock.transport, "pop", interrupt)
    with pytest.raises(Interrupted):
        lock.acquire(timeout=10)
    assert lock.waiters() == 0
    holder.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_the_owner_and_the_number_of_waiters_are_known(store):
    lock = lock_on(store, owner="till: 7")
    assert lock.owner() is None
    with lock.acquire():
        heir = Task(lambda: lock_on(store).acquire(timeout=10))
        eventually(lambda: lock.waiters() == 1)
        assert lock.owner() == "till: 7"
    heir.result().release()


def test_an_unreachable_server_raises_lock_unavailable_with_its_cause():
    lock = RedisLock(connect(f"redis://127.0.0.1:{free_port()}/0"), "phone")
    with pytest.raises(LockUnavailable) as caught:
        lock.acquire(timeout=5)
    assert isinstance(caught.value.__cause__, redis.exceptions.ConnectionError)


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
