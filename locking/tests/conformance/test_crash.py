"""What becomes of a lock when its holder, or its server, dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from locking.base import Lock
from locking.terms import LockLost, LockTimeout, LockUnavailable
from locking.tests.conformance.clients import ANSWER_TIMEOUT, Client
from locking.tests.conformance.conftest import Deployment, when_up
from locking.tests.helpers import eventually

MakeClient = Callable[..., Client]
UntilInLine = Callable[[int], None]

MAX_LEASE = 100.0
"""Seconds: more than any backend's lease or session here."""


def test_a_killed_holders_lock_goes_to_the_one_who_waits(
    deployment: Deployment, client: MakeClient, until_in_line: UntilInLine
) -> None:
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
    deployment.down()
    deployment.up()
    if deployment.capabilities.survives_server_restart:
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
def test_a_waiter_survives_a_restart_of_the_server_or_learns_of_it(
    deployment: Deployment, lock: Lock, client: MakeClient, until_in_line: UntilInLine
) -> None:
    holder, waiter = client(), client()
    holder.call("acquire", 0)
    waiter.begin("acquire", 60)
    until_in_line(1)
    deployment.down()
    deployment.up()
    with suppress(LockLost):
        when_up(holder.call, "release")
    try:
        waiter.answer(within=70)
    except LockUnavailable:
        waiter.process.kill()
    else:
        with pytest.raises(LockTimeout):
            when_up(lock.acquire, 0)
        waiter.call("release")
    # The place of a killed waiter is free when its session has ended.
    when_up(lock.acquire, 120).release()


def test_without_a_server_the_lock_is_unavailable_at_once_and_not_granted_later(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
    lock.acquire(0).release()  # connected, so that the client goes on trying
    deployment.down()
    began = time.monotonic()
    try:
        with pytest.raises(LockUnavailable):
            lock.acquire(timeout=60)
        assert time.monotonic() - began < 40
    finally:
        deployment.up()
    when_up(client().call, "acquire", 10)


@pytest.mark.timeout(300)
def test_a_release_that_no_server_hears_can_be_repeated(
    deployment: Deployment, client: MakeClient
) -> None:
    holder, other = client(), client()
    token = holder.call("acquire", 0)
    deployment.down()
    try:
        with pytest.raises((LockUnavailable, LockLost)) as first:
            holder.call("release")
    finally:
        deployment.up()
    if first.type is LockUnavailable:
        with suppress(LockLost):
            when_up(holder.call, "release")

    # A lease that the client has given up ends on the server only by itself: a ZooKeeper that is
    # starting may take a connection and not answer until then.
    def acquired() -> Any:
        other.begin("acquire", MAX_LEASE)
        return other.answer(MAX_LEASE + ANSWER_TIMEOUT)

    assert when_up(acquired) != token or not deployment.capabilities.fence
    other.call("release")
