"""A grant whose answer takes longer than the lease lasts is no grant."""

from __future__ import annotations

import time

import pytest

from locking import LockTimeout
from locking.backends.redis import RedisLock
from locking.backends.redis_core import LateGrant
from locking.backends.redis_protocol import Grant
from locking.backends.redis_shared import RedisWriteLock
from locking.redis_client import connect
from locking.terms import Clock
from locking.tests.helpers import Around, ask

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")

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
    with pytest.raises(LateGrant):
        steps.send([7])


def test_acquire_never_returns_an_expired_lease(valkey):
    lock = RedisLock(valkey, "phone", lease=LEASE, renew=False)
    lock.transport = Slow(lock.transport, late=1, seconds=2 * LEASE)
    with lock.acquire(timeout=5) as lease:
        assert lease.remaining() > 0
        lease.check()


def test_a_grant_that_came_too_late_is_released(valkey):
    lock = RedisLock(valkey, "phone", lease=LEASE, renew=False)
    lock.transport = Slow(lock.transport, late=1, seconds=LEASE)
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
