"""What a lease says about itself: its end, its loss, its extension."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from locking.base import Lock
from locking.terms import Hooks, LockLost, LockTimeout, LockUnsupported
from locking.tests.conformance.clients import Client
from locking.tests.conformance.conftest import Deployment
from locking.tests.helpers import eventually

MakeClient = Callable[..., Client]


class Recorder(Hooks):
    """Remembers what happened."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def waited(self, name: str, seconds: float, acquired: bool) -> None:
        assert seconds >= 0
        self.seen.append(("waited", acquired))

    def held(self, name: str, seconds: float) -> None:
        assert seconds >= 0
        self.seen.append(("held",))

    def lost(self, name: str, reason: str) -> None:
        assert reason
        self.seen.append(("lost",))


def test_a_living_holder_keeps_the_lock_or_learns_that_its_lease_ended(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
    holder = client(lease=deployment.kind.lease)
    holder.call("acquire", 0)
    if deployment.capabilities.renewal:
        assert not holder.call("wait_lost", deployment.kind.lease * 1.5)
        with pytest.raises(LockTimeout):
            lock.acquire(0)
        holder.call("check")
        holder.call("release")
        return
    assert holder.call("wait_lost", deployment.kind.lease + 1)
    with pytest.raises(LockLost):
        holder.call("check")
    with lock.acquire(deployment.kind.crash_release):
        with pytest.raises(LockLost):
            holder.call("release")
        with pytest.raises(LockTimeout):
            client().call("acquire", 0)


def test_an_extended_lease_outlasts_its_first_end(deployment: Deployment, name: str) -> None:
    lease = deployment.here.lock(name, lease=deployment.kind.lease).acquire(0)
    if not deployment.capabilities.extend:
        with pytest.raises(LockUnsupported):
            lease.extend(5)
        lease.release()
        return
    first_end = time.monotonic() + lease.remaining()
    lease.extend(deployment.kind.lease + 10)
    assert deployment.kind.lease < lease.remaining() <= deployment.kind.lease + 10
    other = deployment.here.lock(name)
    with pytest.raises(LockTimeout):
        other.acquire(first_end - time.monotonic() + deployment.kind.late_end + 0.2)
    lease.check()
    lease.release()
    other.acquire(1).release()


def test_a_lost_lease_cannot_be_extended(
    deployment: Deployment, name: str, client: MakeClient
) -> None:
    if not deployment.capabilities.extend:
        with deployment.here.lock(name).acquire(0) as lease, pytest.raises(LockUnsupported):
            lease.extend(5)
        return
    lease = deployment.here.lock(name).acquire(0)
    successor = client()
    assert deployment.here.lock(name).force_release("for the test")
    with pytest.raises(LockLost):
        lease.extend(30)
    assert lease.remaining() == 0.0
    # The extension has not re-created the lost lock.
    successor.call("acquire", 5)
    with pytest.raises(LockLost):
        lease.extend(30)
    successor.call("release")


def test_hooks_hear_of_waits_holds_and_losses(deployment: Deployment, name: str) -> None:
    hooks = Recorder()
    lock = deployment.here.lock(name, hooks=hooks)
    with lock.acquire(5), pytest.raises(LockTimeout):
        deployment.here.lock(name, hooks=hooks).acquire(0)
    assert hooks.seen == [("waited", True), ("waited", False), ("held",)]
    if deployment.capabilities.force_release:
        with pytest.raises(LockLost), lock.acquire(0):
            assert deployment.here.lock(name).force_release("for the test")
        assert sorted(hooks.seen[3:]) == [("held",), ("lost",), ("waited", True)]


def test_a_released_lease_has_no_time_left(lock: Lock) -> None:
    lease = lock.acquire(0)
    assert lease.remaining() > 0
    lease.check()
    lease.release()
    assert lease.released
    assert lease.remaining() == 0.0
    lease.release()
    with pytest.raises(LockLost):
        lease.check()


def test_the_same_handle_enters_twice_only_if_it_was_made_to(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
    once = lock.acquire(0)
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    once.release()
    if not deployment.capabilities.reentrant:
        return
    lock, other = deployment.here.lock(lock.name, reentrant=True, owner="till-7"), client()
    outer = lock.acquire(0)
    inner = lock.acquire(0)
    assert inner.token == outer.token
    inner.release()
    assert not other.call("try_for", 0)[0]
    outer.release()
    assert other.call("try_for", 0)[0]


def test_operators_see_who_holds_and_how_many_wait_as_far_as_declared(
    deployment: Deployment, lock: Lock, client: MakeClient, until_in_line: Callable[[int], None]
) -> None:
    holder, waiter = client(owner="till-7"), client()
    if deployment.capabilities.knows_owner:
        assert lock.owner() is None
    holder.call("acquire", 0)
    waiter.begin("acquire", 30)
    until_in_line(1)
    for declared, ask, answer in [
        (deployment.capabilities.knows_owner, lock.owner, "till-7"),
        (deployment.capabilities.counts_waiters, lock.waiters, 1),
    ]:
        if declared:
            assert ask() == answer
        else:
            with pytest.raises(LockUnsupported):
                ask()
    holder.call("release")
    waiter.answer()
    waiter.call("release")
    if deployment.capabilities.counts_waiters:
        assert lock.waiters() == 0
    if deployment.capabilities.knows_owner:
        assert eventually(lambda: lock.owner() is None)
