"""What a lease says about itself, and what becomes of it when its holder or its server dies."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from locking import LockLost, LockTimeout, LockUnavailable, LockUnsupported
from locking.tests.conformance.clients import ANSWER_TIMEOUT
from locking.tests.conformance.conftest import when_up
from locking.tests.helpers import eventually

MAX_LEASE = 100.0
"""Seconds: more than any backend's lease or session here."""


def test_living_holder_keeps_the_lock_or_learns_of_its_end(deployment, lock, client):
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


def test_extended_lease_outlasts_its_first_end(deployment, name):
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


def test_lost_lease_cannot_be_extended(deployment, lock, client):
    if not deployment.capabilities.extend:
        return  # neither can another one
    lease = lock.acquire(0)
    assert lock.force_release("for the test")
    with pytest.raises(LockLost):
        lease.extend(30)
    assert lease.remaining() == 0.0
    # The extension has not re-created the lost lock.
    client().call("acquire", 5)


def test_handle_enters_twice_only_if_reentrant(deployment, lock, client):
    with lock.acquire(0), pytest.raises(LockTimeout):
        lock.acquire(0)
    if not deployment.capabilities.reentrant:
        return
    lock, other = deployment.here.lock(lock.name, reentrant=True, owner="till-7"), client()
    outer, inner = lock.acquire(0), lock.acquire(0)
    assert inner.token == outer.token
    inner.release()
    assert not other.call("try_for", 0)[0]
    outer.release()
    assert other.call("try_for", 0)[0]


def test_lock_shows_holder_and_number_of_waiters_as_declared(
    deployment, lock, client, until_in_line
):
    holder, waiter = client(owner="till-7"), client()
    holder.call("acquire", 0)
    waiter.begin("acquire", 30)
    until_in_line(1)
    for declared, ask, answer in [
        (deployment.capabilities.owner, lock.owner, "till-7"),
        (deployment.capabilities.waiters, lock.waiters, 1),
    ]:
        if declared:
            assert ask() == answer
        else:
            with pytest.raises(LockUnsupported):
                ask()
    holder.call("release")
    waiter.answer()
    waiter.call("release")
    if deployment.capabilities.waiters:
        assert lock.waiters() == 0
    if deployment.capabilities.owner:
        eventually(lambda: lock.owner() is None)


# -- crashes


def test_lock_of_a_killed_holder_goes_to_the_waiter(deployment, client, until_in_line):
    holder, waiter = client(lease=deployment.kind.lease), client()
    token = holder.call("acquire", 0)
    waiter.begin("acquire", ANSWER_TIMEOUT)
    until_in_line(1)
    holder.kill()
    killed = time.monotonic()
    later = waiter.answer()
    assert time.monotonic() - killed < deployment.kind.crash_release
    if deployment.capabilities.fence:
        assert later > token


def test_lock_of_a_killed_holder_can_be_acquired_later(deployment, lock, client):
    holder = client(lease=deployment.kind.lease)
    holder.call("acquire", 0)
    holder.kill()
    lock.acquire(deployment.kind.crash_release).release()
    eventually(lambda: deployment.here.traces(lock.name) == [])


def test_server_restart_never_lets_two_in_unnoticed(deployment, lock, client):
    holder = client()
    token = holder.call("acquire", 0)
    with deployment.down():
        pass
    if deployment.capabilities.survives_restart:
        with pytest.raises(LockTimeout):
            when_up(lock.acquire, 0.2)
        holder.call("check")
        when_up(holder.call, "release")
        when_up(lock.acquire, 10).release()
        return
    later = when_up(lock.acquire, 10)
    with pytest.raises(LockLost):
        when_up(holder.call, "release")
    with pytest.raises(LockTimeout):
        client().call("acquire", 0)
    if deployment.capabilities.fence:
        assert later.token > token
    later.release()


@pytest.mark.timeout(300)
def test_server_restart_is_survived_by_a_waiter_or_raised(deployment, lock, client, until_in_line):
    holder, waiter = client(), client()
    holder.call("acquire", 0)
    waiter.begin("acquire", 60)
    until_in_line(1)
    with deployment.down():
        pass
    with suppress(LockLost):
        when_up(holder.call, "release")
    try:
        waiter.answer(within=70)
    except LockUnavailable:
        waiter.kill()
    else:
        with pytest.raises(LockTimeout):
            when_up(lock.acquire, 0)
        waiter.call("release")
    # The place of a killed waiter is free when its session has ended.
    when_up(lock.acquire, 120).release()


def test_lock_without_a_server_is_unavailable_at_once(deployment, lock, client):
    lock.acquire(0).release()  # connected, so that the client goes on trying
    with deployment.down():
        began = time.monotonic()
        with pytest.raises(LockUnavailable):
            lock.acquire(timeout=60)
        assert time.monotonic() - began < 40
    when_up(client().call, "acquire", 10)


@pytest.mark.timeout(300)
def test_release_without_a_server_can_be_repeated(deployment, client):
    holder, other = client(), client()
    token = holder.call("acquire", 0)
    with deployment.down(), pytest.raises((LockUnavailable, LockLost)) as first:
        holder.call("release")
    if first.type is LockUnavailable:
        with suppress(LockLost):
            when_up(holder.call, "release")

    # A lease that the client has given up ends on the server only by itself: a ZooKeeper that is
    # starting may take a connection and not answer until then.
    def acquired() -> Any:
        other.begin("acquire", MAX_LEASE)
        return other.answer(MAX_LEASE + ANSWER_TIMEOUT)

    assert when_up(acquired) != token or not deployment.capabilities.fence
