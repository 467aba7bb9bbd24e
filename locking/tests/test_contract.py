"""The contract itself: lease states, the event of a loss, hooks; on a lease without a server."""

from __future__ import annotations

from math import inf, nan

import pytest

from locking import Hooks, Lease, LockLost, LockTimeout, LockUnavailable, LockUnsupported
from locking.base import Lock
from locking.terms import Clock
from locking.tests.helpers import Task, eventually


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeLease(Lease):
    """A lease whose server says what the test wants."""

    ours = True
    silent = False

    def _release(self) -> bool:
        return self._answer()

    def _extend(self, seconds: float) -> bool:
        return self._answer()

    def _answer(self) -> bool:
        if self.silent:
            raise LockUnavailable("no answer")
        return self.ours


class Record(Hooks):
    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def held(self, name: str, seconds: float) -> None:
        self.seen.append(("held", name, seconds))

    def lost(self, name: str, reason: str) -> None:
        self.seen.append(("lost", name, reason))


@pytest.fixture
def time() -> Time:
    return Time()


def lease_of(time: Time, seconds: float = 10, **options) -> FakeLease:
    return FakeLease("phone", token=7, seconds=seconds, clock=time.clock(), **options)


def test_a_lease_is_counted_from_when_its_command_was_sent(time):
    lease = FakeLease("phone", seconds=10, sent_at=time.now - 4, clock=time.clock())
    assert lease.remaining() == 6


def test_a_lease_is_lost_at_its_end_without_anybody_looking(time):
    record = Record()
    lease = lease_of(time, hooks=record)
    time.now += 9.9
    assert not lease.lost.is_set()
    time.now += 0.1
    assert lease.lost.is_set()
    assert lease.lost.reason == "the lease ran out"
    assert lease.remaining() == 0
    assert record.seen == [("lost", "phone", "the lease ran out")]


def test_a_loss_is_reported_once(time):
    record = Record()
    lease = lease_of(time, hooks=record)
    lease.mark_lost("first")
    lease.mark_lost("second")
    with pytest.raises(LockLost, match="first"):
        lease.check()
    assert record.seen == [("lost", "phone", "first")]


def test_a_lease_without_an_end_is_never_lost_by_time(time):
    lease = lease_of(time, seconds=inf)
    time.now += 1e9
    assert lease.remaining() == inf
    lease.check()


def test_releasing_twice_is_releasing_once(time):
    record = Record()
    lease = lease_of(time, hooks=record)
    time.now += 3
    lease.release()
    lease.release()
    assert record.seen == [("held", "phone", 3)]
    assert not lease.lost.is_set()
    with pytest.raises(LockLost, match="released"):
        lease.check()


def test_a_release_without_an_answer_may_be_repeated(time):
    lease = lease_of(time)
    lease.silent = True
    with pytest.raises(LockUnavailable):
        lease.release()
    assert not lease.released
    lease.silent = False
    lease.release()
    assert lease.released


def test_releasing_a_lost_lease_says_so_and_still_ends_it(time):
    lease = lease_of(time)
    lease.ours = False
    with pytest.raises(LockLost):
        lease.release()
    assert lease.released
    lease.release()


def test_an_extension_moves_the_end(time):
    lease = lease_of(time)
    time.now += 8
    lease.extend(30)
    assert lease.remaining() == 30
    lease.extend(1)
    assert lease.remaining() == 1


@pytest.mark.parametrize("seconds", [0, -1, 0.0009, nan, inf, 1e300])
def test_an_extension_to_a_senseless_length_changes_nothing(time, seconds):
    lease = lease_of(time)
    with pytest.raises(ValueError, match="at least 1 ms"):
        lease.extend(seconds)
    assert lease.remaining() == 10
    lease.release()


def test_an_extension_that_is_refused_is_a_loss(time):
    lease = lease_of(time)
    lease.ours = False
    with pytest.raises(LockLost):
        lease.extend(30)
    assert lease.lost.is_set()


def test_an_extension_without_an_answer_leaves_the_old_end(time):
    lease = lease_of(time)
    lease.silent = True
    with pytest.raises(LockUnavailable):
        lease.extend(30)
    assert lease.remaining() == 10


def test_a_lease_that_may_have_been_shortened_ends_at_the_earlier_of_both(time):
    lease = lease_of(time)
    lease.silent = True
    with pytest.raises(LockUnavailable):
        lease.extend(2)
    assert lease.remaining() == 2


def test_an_extension_that_is_not_supported_changes_nothing(time):
    class Endless(FakeLease):
        def _extend(self, seconds: float) -> bool:
            raise LockUnsupported("it lasts as long as its connection")

    lease = Endless("phone", seconds=inf, clock=time.clock())
    with pytest.raises(LockUnsupported):
        lease.extend(2)
    assert lease.remaining() == inf
    lease.release()


def test_a_lost_lease_is_not_extended(time):
    lease = lease_of(time)
    time.now += 10
    with pytest.raises(LockLost):
        lease.extend(30)
    assert lease.remaining() == 0


def test_leaving_the_block_raises_what_release_raises_unless_the_body_raised(time):
    with pytest.raises(LockLost), lease_of(time) as lease:
        lease.ours = False

    def fail() -> None:
        with lease_of(time) as lease:
            lease.silent = True
            raise KeyError("the body's")

    with pytest.raises(KeyError) as caught:
        fail()
    assert caught.value.__notes__ == ["and then LockUnavailable: no answer"]


def test_waiting_for_a_loss_ends_with_the_loss_the_release_or_the_time_out():
    lost = FakeLease("phone", seconds=60)
    waiting = Task(lost.lost.wait)
    lost.mark_lost("for the test")
    assert waiting.result() is True

    released = FakeLease("phone", seconds=60)
    waiting = Task(released.lost.wait)
    released.release()
    assert waiting.result() is False

    assert FakeLease("phone", seconds=60).lost.wait(0.05) is False
    assert FakeLease("phone", seconds=0.05).lost.wait() is True


def test_an_unsupported_operation_raises():
    class Bare(Lock):
        name = "bare"

        def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> Lease:
            raise LockTimeout("never free")

    lock = Bare()
    for call in (lock.owner, lock.waiters, lambda: lock.force_release("x")):
        with pytest.raises(LockUnsupported):
            call()


def test_eventually_fails_a_test_that_waits_in_vain():
    with pytest.raises(AssertionError):
        eventually(lambda: False, within=0.05)
