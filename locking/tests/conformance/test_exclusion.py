"""One client at a time, in its turn, whatever the others do; and it alone can let go."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from multiprocessing.connection import wait

import pytest

from locking import LockLost, LockTimeout, LockUnavailable, LockUnsupported
from locking.tests.conformance.backends import RedisOnValkey
from locking.tests.conformance.clients import ANSWER_TIMEOUT, Cancelled, Client
from locking.tests.helpers import eventually, most_inside

# s that an answer may come late on a machine that runs other tests too.
MARGIN = 10


@pytest.fixture
def counter(tmp_path):
    path = tmp_path / "counter"
    path.write_text("0")
    return path


def test_processes_with_the_lock_count_exactly(deployment, client, counter):
    processes, rounds = 6, 25
    clients = [client() for _ in range(processes)]
    for one in clients:
        one.begin("count", rounds, str(counter))
    answers = [one.answer() for one in clients]

    assert [intruders for intruders, _ in answers] == [0] * processes
    assert int(counter.read_text()) == processes * rounds
    tokens = [token for _, tokens in answers for token in tokens]
    if deployment.capabilities.fence:
        assert len(set(tokens)) == processes * rounds
        for _, own in answers:
            assert own == sorted(own)
    else:
        assert set(tokens) == {None}


def test_processes_without_a_lock_lose_counts(counter):
    """A control: the second one comes while the first is between reading and writing."""
    with ExitStack() as running:
        # The lock's handle connects to nothing before it is used.
        first, second = (
            running.enter_context(Client(RedisOnValkey, ["redis://127.0.0.1:1"], "unused"))
            for _ in range(2)
        )
        first_read = first.call("read_count", str(counter))
        second_read = second.call("read_count", str(counter))
        first.call("write_count", str(counter), first_read.value + 1)
        second.call("write_count", str(counter), second_read.value + 1)
    assert [first_read.intruded, second_read.intruded] == [False, True]
    assert int(counter.read_text()) == 1


def test_handle_shared_by_threads_lets_one_in(lock):
    assert most_inside([lock] * 5, rounds=10) == 1


def test_locks_of_different_names_do_not_exclude_each_other(deployment, name):
    endings = ["", " ", "/é", "/锁", "%", "{tag}", "\\n", "\n", "'\"", "x" * 300, "x" * 301]
    names = [name.upper(), *(f"{name}{ending}" for ending in endings)]
    leases = [deployment.here.lock(one).acquire(0) for one in names]
    assert len({lease.name for lease in leases}) == len(names)
    for one in names:
        with pytest.raises(LockTimeout):
            deployment.here.lock(one).acquire(0)
    for lease in leases:
        lease.release()
    for one in names:
        deployment.here.lock(one).acquire(0).release()


def test_late_release_of_a_stopped_holder_frees_nothing(deployment, lock, client):
    holder, successor = client(lease=deployment.kind.lease), client()
    token = holder.call("acquire", 0)
    holder.signal(signal.SIGSTOP)
    try:
        if deployment.capabilities.crash_release == "connection":
            # The connection of a stopped process stands, and so does its lock.
            assert not successor.call("try_for", deployment.kind.lease * 1.5)[0]
            return
        later = successor.call("acquire", deployment.kind.crash_release + 5)
    finally:
        holder.signal(signal.SIGCONT)

    # A client may notice first that its connection has been dropped meanwhile.
    with pytest.raises((LockLost, LockUnavailable)):
        holder.call("release")
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    if deployment.capabilities.fence:
        assert later > token


def test_lost_lease_does_not_release_the_next_holders_lock(deployment, lock, client):
    if not deployment.capabilities.force_release:
        with pytest.raises(LockUnsupported):
            lock.force_release("nobody can")
        return
    assert not lock.force_release("nobody is there")
    holder, successor = client(), client()
    holder.call("acquire", 0)
    assert lock.force_release("the operator says so")
    successor.call("acquire", 10)
    with pytest.raises(LockLost):
        holder.call("release")
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    successor.call("release")
    holder.call("release")  # of a lost lease that was released already: nothing happens
    assert eventually(lambda: client().call("try_for", 0)[0])


def test_time_outs_of_none_short_and_long_are_kept(lock, client):
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


def test_release_wakes_waiters_one_by_one_in_declared_order(
    deployment, lock, client, until_in_line
):
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
        [entered] = [waiter for waiter in waiters if waiter.pipe.poll()]  # one at a time
        order.append(entered)
        tokens.append(entered.answer())
        assert not any(waiter.pipe.poll() for waiter in waiters)
        entered.call("release")
    # The lease lasts 30 s: they were woken by the release, not by its end.
    assert time.monotonic() - began < 25
    if deployment.capabilities.fair:
        assert order == waiters
    if deployment.capabilities.fence:
        assert tokens == sorted(set(tokens))


def test_cancelled_waiter_leaves_nothing_behind(deployment, lock, client, until_in_line):
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
    eventually(lambda: deployment.here.traces(lock.name) == [])
    # The client itself is as good as before.
    waiter.call("acquire", 10)
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    waiter.call("release")


def test_killed_waiter_does_not_hold_up_those_behind_it(lock, client, until_in_line):
    ghost, behind = client(lease=1.0), client()
    lease = lock.acquire(0)
    ghost.begin("acquire", ANSWER_TIMEOUT)
    until_in_line(1)
    behind.begin("acquire", ANSWER_TIMEOUT)
    until_in_line(2)
    ghost.kill()
    lease.release()
    behind.answer()


def test_lock_leaves_nothing_on_the_server_after_use(deployment, lock, client):
    other = client()
    for _ in range(3):
        with lock.acquire(0):
            assert deployment.here.traces(lock.name) != []  # the search can find some
            assert not other.call("try_for", 0.05)[0]
        assert other.call("try_for", 5)[0]
        other.call("release")
    eventually(lambda: deployment.here.traces(lock.name) == [])
