"""What becomes of a lock when its holder, or its server, dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from locking.base import Lock, LockLost, LockTimeout, LockUnavailable
from locking.tests.conformance.clients import PATIENCE, Client
from locking.tests.conformance.conftest import Deployment, acquire_when_up, eventually

MakeClient = Callable[..., Client]
UntilInLine = Callable[[int], None]


def test_a_killed_holders_lock_goes_to_the_one_who_waits(
    deployment: Deployment, client: MakeClient, until_in_line: UntilInLine
) -> None:
    holder, waiter = client(lease=deployment.kind.lease), client()
    token = holder.call("acquire", 0)
    waiter.begin("acquire", PATIENCE)
    until_in_line(1)
    holder.kill()
    killed = time.monotonic()
    later = waiter.answer()
    assert time.monotonic() - killed < deployment.kind.crash_release
    if deployment.capabilities.fence:
        assert later > token
    waiter.call("release")


def test_a_killed_holders_lock_can_be_had_by_one_who_comes_later(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
    holder = client(lease=deployment.kind.lease)
    holder.call("acquire", 0)
    holder.kill()
    lock.acquire(deployment.kind.crash_release).release()
    eventually(lambda: deployment.here.traces(lock.name) == [], within=10)


def test_a_restart_of_the_server_never_lets_two_in_unnoticed(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
    holder = client()
    token = holder.call("acquire", 0)
    deployment.restart()
    if deployment.capabilities.survives_server_restart:
        with pytest.raises(LockTimeout):
            acquire_when_up(lock, 0.2)
        holder.call("check")
        holder.call("release")
        acquire_when_up(lock, 10).release()
        return
    later = acquire_when_up(lock, 10)
    with pytest.raises(LockLost):
        holder.call("release")
    with pytest.raises(LockTimeout):
        client().call("acquire", 0)
    if deployment.capabilities.fence:
        assert later.token is not None
        assert later.token > token
    later.release()


def test_a_waiter_survives_a_restart_of_the_server_or_learns_of_it(
    deployment: Deployment, lock: Lock, client: MakeClient, until_in_line: UntilInLine
) -> None:
    holder, waiter = client(), client()
    holder.call("acquire", 0)
    waiter.begin("acquire", 20)
    until_in_line(1)
    deployment.restart()
    eventually(lambda: _released(holder))
    try:
        waiter.answer(within=30)
    except LockUnavailable:
        waiter.process.kill()
    else:
        with pytest.raises(LockTimeout):
            acquire_when_up(lock, 0)
        waiter.call("release")
    acquire_when_up(lock, 40).release()


def _released(holder: Client) -> bool:
    try:
        holder.call("release")
    except LockLost:
        return True
    except LockUnavailable:
        return False
    return True


@pytest.fixture
def no_server(deployment: Deployment) -> Iterator[None]:
    for server in deployment.servers:
        server.kill()
    yield
    for server in deployment.servers:
        server.start()


@pytest.mark.usefixtures("no_server")
def test_without_a_server_the_lock_is_unavailable_at_once(lock: Lock) -> None:
    began = time.monotonic()
    with pytest.raises(LockUnavailable):
        lock.acquire(timeout=60)
    assert time.monotonic() - began < 10


def test_a_release_that_no_server_hears_can_be_repeated(
    deployment: Deployment, client: MakeClient
) -> None:
    holder, other = client(), client()
    holder.call("acquire", 0)
    for server in deployment.servers:
        server.kill()
    try:
        with pytest.raises((LockUnavailable, LockLost)) as first:
            holder.call("release")
    finally:
        for server in deployment.servers:
            server.start()
    if first.type is LockUnavailable:
        eventually(lambda: _released(holder))
    eventually(lambda: _entered(other), within=10)
    other.call("release")


def _entered(client: Client) -> bool:
    try:
        return bool(client.call("try_for", 1)[0])
    except LockUnavailable:
        return False
