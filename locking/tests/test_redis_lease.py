"""The lease of the production lock on a real server: kept, lost, taken away, handed over."""

from __future__ import annotations

import time
from math import inf, nan

import pytest

from locking import Hooks, LockLost
from locking.tests.helpers import TransportWithPop, eventually, fence, lock_on

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


def test_without_renewal_a_lease_is_lost_at_its_end_without_asking_anybody(store):
    lease = lock_on(store, lease=0.2, renew=False).acquire()
    assert not lease.lost.is_set()
    assert lease.lost.wait(5)
    assert lease.remaining() == 0
    with pytest.raises(LockLost):
        lease.check()
    with pytest.raises(LockLost):
        lease.release()


def test_an_error_of_the_body_takes_precedence_over_the_loss(store):
    def lose_and_fail() -> None:
        with lock_on(store).acquire():
            store.flushall()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        lose_and_fail()
    assert any("LockLost" in note for note in caught.value.__notes__)


def test_the_renewal_tells_the_body_that_the_lock_was_taken_away(store):
    lost: list[tuple[str, str]] = []

    class Watch(Hooks):
        def lost(self, name: str, reason: str) -> None:
            lost.append((name, reason))

    lease = lock_on(store, lease=0.6, hooks=Watch()).acquire()
    assert lock_on(store).force_release("the test wants it")
    assert lease.lost.wait(5)
    assert lost == [("phone", "the server no longer knows it")]


def test_extend_moves_the_end_and_never_revives_a_lost_lease(store):
    lease = lock_on(store, lease=1, renew=False).acquire()
    lease.extend(30)
    assert 29 < lease.remaining() <= 30
    assert 29_000 < store.pttl("lock:{phone}") <= 30_000
    store.delete("lock:{phone}")
    with pytest.raises(LockLost):
        lease.extend(30)
    assert not store.exists("lock:{phone}")


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
    transport = lock.transport

    def slow_pop(key: str, seconds: float):
        holder.release()
        handed_over = time.monotonic()
        eventually(lambda: time.monotonic() > handed_over + 0.4)
        return transport.pop(key, seconds)

    lock.transport = TransportWithPop(transport, slow_pop)
    lease = lock.acquire(timeout=10)
    assert lease.remaining() <= 0.6
    assert lease.remaining() * 1000 <= store.pttl("lock:{phone}") + 5
    lease.release()


def test_a_hand_over_that_expired_before_its_wake_up_grants_nothing(store):
    holder = lock_on(store).acquire()
    lock = lock_on(store, lease=0.2, renew=False)
    transport = lock.transport
    handed_over: list[bytes] = []

    def too_slow_once(key: str, seconds: float):
        if handed_over:
            return transport.pop(key, seconds)
        holder.release()
        handed_over.append(store.get("lock:{phone}:fence"))
        message = transport.pop(key, seconds)
        eventually(lambda: not store.exists("lock:{phone}"))
        return message

    lock.transport = TransportWithPop(transport, too_slow_once)
    lease = lock.acquire(timeout=10)
    assert fence(lease) > int(handed_over[0]) > fence(holder)
    lease.release()
