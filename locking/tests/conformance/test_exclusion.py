"""One client at a time, whatever the others do, and it alone can let go."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from locking.base import Lock
from locking.terms import LockLost, LockTimeout, LockUnsupported
from locking.tests.conformance.backends import RedisOnValkey
from locking.tests.conformance.clients import Client
from locking.tests.conformance.conftest import Deployment
from locking.tests.helpers import eventually, most_inside

MakeClient = Callable[..., Client]


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    path = tmp_path / "counter"
    path.write_text("0")
    return path


def test_many_processes_count_exactly(
    deployment: Deployment, client: MakeClient, counter: Path
) -> None:
    processes, rounds = 6, deployment.kind.rounds
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


def test_only_one_of_many_threads_of_one_handle_is_inside(lock: Lock) -> None:
    assert most_inside([lock] * 5, rounds=10) == 1


def test_a_stopped_holder_that_comes_back_late_cannot_release_the_next_ones_lock(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
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

    with pytest.raises(LockLost):
        holder.call("release")
    with pytest.raises(LockTimeout):
        lock.acquire(0)
    if deployment.capabilities.fence:
        assert later > token
    successor.call("release")


def test_a_lease_that_was_taken_away_is_lost_and_its_release_frees_nobody_elses(
    deployment: Deployment, lock: Lock, client: MakeClient
) -> None:
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


def test_locks_of_different_names_do_not_exclude_each_other(
    deployment: Deployment, name: str
) -> None:
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


# -- a control


def test_processes_without_a_lock_lose_counts_and_meet_each_other(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as running:
        # The lock's handle connects to nothing before it is used.
        clients = [
            running.enter_context(Client(RedisOnValkey.name, ["redis://127.0.0.1:1"], "unused"))
            for _ in range(4)
        ]
        for one in clients:
            one.begin("count", 500, str(counter), False)
        intruders = sum(one.answer()[0] for one in clients)
    assert intruders > 0
    assert int(counter.read_text()) < 4 * 500
