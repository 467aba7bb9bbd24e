"""Waiting: for as long as asked, woken by a release, without a trace when given up."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait

import pytest

from locking.base import Lock
from locking.terms import LockTimeout
from locking.tests.conformance.clients import ANSWER_TIMEOUT, Cancelled, Client
from locking.tests.conformance.conftest import Deployment
from locking.tests.helpers import eventually

MakeClient = Callable[..., Client]
UntilInLine = Callable[[int], None]

# s that an answer may come late on a machine that runs other tests too.
MARGIN = 10


def test_time_outs_of_none_short_and_long_are_kept(lock: Lock, client: MakeClient) -> None:
    timeouts = [0.0, 0.3, 2.2]  # 2.2 s is more than any backend waits in one piece
    clients = [client() for _ in timeouts]
    with lock.acquire(0):
        for one, timeout in zip(clients, timeouts, strict=True):
            one.begin("try_for", timeout)
        answers = [one.answer() for one in clients]
    for (acquired, took), timeout in zip(answers, timeouts, strict=True):
        assert not acquired
        # Servers count in whole milliseconds, and clocks tick.
        assert timeout - 0.01 <= took <= timeout + MARGIN


def test_a_release_wakes_the_waiters_one_after_the_other_and_in_order_where_that_is_declared(
    deployment: Deployment, lock: Lock, client: MakeClient, until_in_line: UntilInLine
) -> None:
    waiters = [client() for _ in range(4)]
    lease = lock.acquire(0)
    for count, waiter in enumerate(waiters, 1):
        waiter.begin("acquire", ANSWER_TIMEOUT)
        until_in_line(count)
    began = time.monotonic()
    lease.release()
    order, tokens = list[Client](), []
    while len(order) < len(waiters):
        wait([waiter.pipe for waiter in waiters], timeout=ANSWER_TIMEOUT)
        [entered] = [waiter for waiter in waiters if waiter.answered()]  # one at a time
        order.append(entered)
        tokens.append(entered.answer())
        assert not any(waiter.answered() for waiter in waiters)
        entered.call("release")
    # The lease lasts 30 s: they were woken by the release, not by its end.
    assert time.monotonic() - began < 25
    if deployment.capabilities.fair:
        assert order == waiters
    if deployment.capabilities.fence:
        assert tokens == sorted(set(tokens))


def test_a_cancelled_waiter_leaves_nothing_behind(
    deployment: Deployment, lock: Lock, client: MakeClient, until_in_line: UntilInLine
) -> None:
    waiter = client()
    lease = lock.acquire(0)
    waiter.begin("acquire", ANSWER_TIMEOUT)
    until_in_line(1)
    waiter.signal(signal.SIGINT)
    with pytest.raises(Cancelled):
        waiter.answer()
    until_in_line(0)
    lease.release()
    lock.acquire(0).release()
    eventually(lambda: deployment.here.traces(lock.name) == [], within=10)
    # The client itself is as good as before.
    waiter.call("acquire", 10)
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    waiter.call("release")


def test_a_killed_waiter_does_not_hold_up_those_behind_it(
    lock: Lock, client: MakeClient, until_in_line: UntilInLine
) -> None:
    ghost, behind = client(lease=1.0), client()
    lease = lock.acquire(0)
    ghost.begin("acquire", ANSWER_TIMEOUT)
    until_in_line(1)
    behind.begin("acquire", ANSWER_TIMEOUT)
    until_in_line(2)
    ghost.kill()
    lease.release()
    behind.answer(within=10)
    behind.call("release")


def test_nothing_is_left_on_the_server_after_use(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
    other = client()
    for _ in range(3):
        with lock.acquire(0):
            assert not other.call("try_for", 0.05)[0]
        assert other.call("try_for", 5)[0]
        other.call("release")
    eventually(lambda: deployment.here.traces(lock.name) == [], within=10)


def test_a_held_lock_leaves_a_trace_on_the_server(deployment: Deployment, lock: Lock) -> None:
    """The search for traces must be able to find some."""
    with lock.acquire(0):
        assert deployment.here.traces(lock.name) != []
