"""The lock that its callers can do without."""

from __future__ import annotations

from inventory.metrics import metrics
from inventory.redis import DegradableLock, circuit
from locking import LockUnavailable
from locking.backends.redis import RedisLease

LOCK = DegradableLock("degradable", lease=5.0, timeout=0.1)


def test_a_lock_that_was_lost_is_counted_and_costs_its_holder_nothing():
    before = metrics.read().get("lock_lost", 0)
    with LOCK.hold(1) as token:
        assert token is not None
        LOCK.make(1).force_release("a test")
    assert metrics.read()["lock_lost"] == before + 1


def test_who_waits_too_long_goes_on_without_the_lock():
    with LOCK.hold(2) as token, LOCK.hold(2) as second:
        assert token is not None
        assert second is None
    with LOCK.hold(2) as third:
        assert third is not None


def test_a_release_that_redis_does_not_answer_spares_the_next_caller_the_wait(monkeypatch):
    release = RedisLease.release

    def unanswered(lease: RedisLease) -> None:
        release(lease)
        raise LockUnavailable("Redis does not answer")

    circuit.cache_clear()
    with LOCK.hold(3):
        monkeypatch.setattr(RedisLease, "release", unanswered)
    assert circuit().open
    with LOCK.hold(4) as token:
        assert token is None, "Redis was not asked"
    circuit.cache_clear()
