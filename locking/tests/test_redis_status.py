"""Operators see who holds a lock and who waits for it."""

from __future__ import annotations

import pytest

from locking import LockUnsupported
from locking.backends.redis import RedisLock
from locking.backends.redis_shared import RedisReadLock
from locking.backends.redis_status import LockStatus, status_of
from locking.tests.helpers import Task, eventually

pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")

FREE = LockStatus(owner=None, token=0, remaining=0.0, waiters=())


def test_a_free_lock_has_neither_holder_nor_waiters(store):
    assert status_of(RedisLock(store, "phone")) == FREE


def test_the_holder_is_named_with_its_token_and_the_rest_of_its_lease(store):
    with RedisLock(store, "phone", lease=20, owner="web 1").acquire() as lease:
        found = status_of(RedisLock(store, "phone"))
        assert (found.owner, found.token, found.waiters) == ("web 1", lease.token, ())
        assert 15 < found.remaining <= 20
    assert status_of(RedisLock(store, "phone")) == FREE


def test_live_waiters_are_named_in_order_of_arrival_and_dead_ones_are_not(store):
    def wait(owner: str) -> None:
        RedisLock(store, "phone", owner=owner).acquire(timeout=20).release()

    lock = RedisLock(store, "phone", owner="holder:with:colons")
    with lock.acquire():
        store.rpush(lock.remote.keys[2], "f10000:dead:crashed")
        store.zadd(lock.remote.keys[3], {"f10000:dead:crashed": 1})
        waiting = [Task(wait, "web 2")]
        eventually(lambda: status_of(lock).waiters == ("web 2",))
        waiting.append(Task(wait, "web 3"))
        eventually(lambda: len(status_of(lock).waiters) == 2)
        found = status_of(lock)
        assert (found.owner, found.waiters) == ("holder:with:colons", ("web 2", "web 3"))
    for task in waiting:
        task.result()


def test_a_shared_lock_is_refused(store):
    with pytest.raises(LockUnsupported):
        status_of(RedisReadLock(store, "phone"))
