"""The contract itself: lease states and the event of a loss; on a lease without a server."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf, nan

import pytest

from locking import Lease, LockLost, LockUnavailable, LockUnsupported
from locking.backends._waiting import BackendLease, Deadline, WaitingLock
from locking.terms import SYSTEM_CLOCK, Clock
from locking.tests.helpers import Task


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now)


class FakeLock(WaitingLock):
    """A lock whose leases answer for its server."""

    def _acquire(self, deadline: Deadline) -> Lease:
        raise NotImplementedError

    def _let_go(self, lease: FakeLease) -> bool:
        return lease.answer()

    def _prolong(self, lease: FakeLease, seconds: float) -> bool:
        return lease.answer()


class FakeLease(BackendLease):
    """A lease whose server says what the test wants."""

    ours = True
    silent = False

    def answer(self) -> bool:
        if self.silent:
            raise LockUnavailable("no answer")
        return self.ours


@pytest.fixture
def time() -> Time:
    return Time()


def lease_of(
    time: Time | None = None,
    seconds: float = 10,
    *,
    kind: type[WaitingLock] = FakeLock,
    sent_at: float | None = None,
) -> FakeLease:
    lock = kind("phone", clock=time.clock() if time else SYSTEM_CLOCK)
    lock.lease_seconds = seconds
    return FakeLease(lock, None, token=7, sent_at=sent_at)


def test_a_lease_ends_by_itself_counted_from_when_its_command_was_sent(time):
    lease = lease_of(time, sent_at=time.now - 4)
    endless = lease_of(time, seconds=inf)
    assert lease.remaining() == 6
    time.now += 5.9
    assert not lease.lost.is_set()
    time.now += 0.1
    assert lease.lost.is_set()
    lease.mark_lost("a second time")
    assert lease.lost.reason == "the lease ran out"
    with pytest.raises(LockLost, match="ran out"):
        lease.check()
    with pytest.raises(LockLost, match="ran out"):
        lease.extend(30)
    assert lease.remaining() == 0
    time.now += 1e9
    assert endless.remaining() == inf


def test_a_release_without_an_answer_may_be_repeated_and_its_outcome_is_told_once(time):
    lease = lease_of(time)
    lease.silent = True
    with pytest.raises(LockUnavailable):
        lease.release()
    assert not lease.released
    time.now += 3
    lease.silent = False
    lease.release()
    assert not lease.lost.is_set()
    lease.ours = False
    lease.release()
    assert lease.remaining() == 0
    with pytest.raises(LockLost, match="released"):
        lease.check()


@pytest.mark.parametrize(
    ("server", "seconds", "error", "left"),
    [
        ({}, 30, None, 30),
        ({}, 1, None, 1),
        ({"ours": False}, 30, LockLost, 0),
        ({"silent": True}, 30, LockUnavailable, 10),
        ({"silent": True}, 2, LockUnavailable, 2),  # the server may have shortened it
        *(({}, senseless, ValueError, 10) for senseless in (0, -1, 0.0009, nan, inf, 1e300)),
    ],
)
def test_an_extension_ends_the_lease_at_the_earliest_time_that_is_possible(
    time, server, seconds, error, left
):
    lease = lease_of(time)
    vars(lease).update(server)
    with pytest.raises(error) if error else nullcontext():
        lease.extend(seconds)
    assert lease.remaining() == left


def test_an_extension_that_is_not_supported_changes_nothing(time):
    class Endless(FakeLock):
        _prolong = WaitingLock._prolong

    lease = lease_of(time, inf, kind=Endless)
    with pytest.raises(LockUnsupported):
        lease.extend(2)
    assert lease.remaining() == inf


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
    lost = lease_of()
    waiting = Task(lost.lost.wait)
    lost.mark_lost("for the test")
    assert waiting.result() is True

    released = lease_of()
    waiting = Task(released.lost.wait)
    released.release()
    assert waiting.result() is False

    assert lease_of().lost.wait(0.05) is False
    assert lease_of(seconds=0.05).lost.wait() is True
