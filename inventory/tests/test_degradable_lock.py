"""The lock that its callers can do without."""

from __future__ import annotations

from inventory.degradable_lock import DegradableLock
from inventory.metrics import metrics

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
