"""The production lock on a cluster, behind Sentinels, with replicas, and with gevent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial

import pytest
from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from locking import LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.queue import DelayQueue
from locking.redis_client import connect
from locking.terms import Clock
from locking.tests.helpers import Around, Task, eventually, fence
from locking.tests.needs import GEVENT, needs
from locking.tests.servers import Valkey
from locking.tests.topologies import (
    Primary,
    Replica,
    SentinelServer,
    cluster_url,
    in_sync,
    move_slot,
)

__all__ = ["cluster_url"]

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


@pytest.fixture
def cluster(cluster_url: str) -> Iterator[RedisCluster]:
    client = connect(cluster_url)
    assert isinstance(client, RedisCluster)
    yield client
    client.close()


def test_on_a_cluster_locks_of_all_nodes_work_and_hand_over(cluster: RedisCluster):
    nodes = set()
    for number in range(12):
        name = f"item-{number}"
        node = cluster.get_node_from_key(f"lock:{{{name}}}")
        nodes.add(node.name)
        lock = RedisLock(cluster, name)
        holder = lock.acquire(timeout=5)
        heir = Task(lock.acquire, timeout=10)
        eventually(partial(is_waited_for, lock))
        holder.release()
        lease = heir.result()
        assert fence(lease) > fence(holder)
        lease.release()
    assert len(nodes) == 3


def is_waited_for(lock: RedisLock) -> bool:
    return lock.waiters() == 1


def test_on_a_cluster_a_lock_follows_its_slot_to_another_node(cluster: RedisCluster):
    lock = RedisLock(cluster, "moving")
    before = lock.acquire()
    before.release()
    move_slot(cluster, "moving")
    node = cluster.get_primaries()[0]
    after = RedisLock(f"redis+cluster://127.0.0.1:{node.port}", "moving").acquire(timeout=5)
    assert fence(after) > fence(before)
    after.release()
    lock.acquire(timeout=5).release()  # the old handle has to learn where the slot went


def test_on_a_cluster_the_delay_queue_works(cluster: RedisCluster):
    queue = DelayQueue(cluster, "orders")
    queue.enqueue(["a", "b"], -1)
    assert queue.acknowledge(queue.pop(2)) == 2


def test_a_name_that_would_break_the_hash_tag_is_refused(cluster: RedisCluster):
    for name in ("", "}x", "{x"):
        with pytest.raises(ValueError, match="start with a brace"):
            RedisLock(cluster, name)


@pytest.mark.long
def test_behind_sentinels_the_lock_moves_to_the_promoted_replica():
    with (
        Primary() as primary,
        Replica(primary) as replica,
        SentinelServer(primary) as sentinel,
        Redis(port=primary.port) as on_primary,
        Redis(port=sentinel.port) as on_sentinel,
    ):
        eventually(lambda: in_sync(on_primary), within=30)
        eventually(lambda: on_sentinel.execute_command("SENTINEL", "REPLICAS", "shop"), within=30)
        client = connect(f"redis+sentinel://127.0.0.1:{sentinel.port}/shop/0")
        lock = RedisLock(client, "phone", replicas=1, replica_timeout=2)
        before = lock.acquire(timeout=5)
        primary.kill()

        def promoted() -> bool:
            with Redis(port=replica.port) as on_replica:
                return bool(on_replica.info("replication")["role"] == "master")

        eventually(promoted, within=60)

        def still_ours() -> bool:
            try:
                before.extend(10)
            except LockUnavailable:
                return False
            return True

        eventually(still_ours, within=30)
        other = RedisLock(client, "phone")
        with pytest.raises(LockTimeout):
            Task(lambda: other.acquire(timeout=0)).result()
        before.release()
        after = other.acquire(timeout=5)
        assert fence(after) > fence(before)
        after.release()


@pytest.mark.long
def test_a_grant_that_too_few_replicas_confirm_is_released():
    with Primary() as primary, Replica(primary) as replica, Redis(port=primary.port) as client:
        eventually(lambda: in_sync(client), within=30)
        lock = RedisLock(connect(primary.endpoint), "phone", replicas=1, replica_timeout=2)
        lock.acquire(timeout=5).release()
        replica.kill()
        eventually(lambda: client.info("replication")["connected_slaves"] == 0, within=30)
        with pytest.raises(LockUnavailable, match="0 of 1 replicas"):
            lock.acquire(timeout=5)
        assert RedisLock(connect(primary.endpoint), "phone").owner() is None


class Jumping(Around):
    """A transport whose n-th script takes the given number of seconds on the lock's clock."""

    def __init__(self, lock: RedisLock, *seconds: float) -> None:
        super().__init__(lock.remote.transport)
        self.seconds, self.ahead = list(seconds), 0.0
        lock.remote.clock = Clock(monotonic=lambda: time.monotonic() + self.ahead)
        lock.remote.transport = self

    def run(self, *args):
        answer = self.transport.run(*args)
        self.ahead += self.seconds.pop(0) if self.seconds else 0.0
        return answer


@pytest.mark.long
def test_a_replicated_grant_counts_from_its_confirmation_and_fails_if_that_is_late():
    with Primary() as primary, Replica(primary), Redis(port=primary.port) as client:
        eventually(lambda: in_sync(client), within=30)
        make = partial(RedisLock, connect(primary.endpoint), "phone", renew=False)
        lock = make(lease=100, replicas=1, replica_timeout=2)
        Jumping(lock, 80)
        with lock.acquire(timeout=5) as lease:
            assert lease.remaining() > 50
        late = make(lease=100, replicas=1, replica_timeout=2)
        Jumping(late, 0, 101)
        with pytest.raises(LockUnavailable, match="after the lease had expired"):
            late.acquire(timeout=5)
        assert make().owner() is None


def test_a_server_error_raises_lock_unavailable_and_leaves_nothing(own_valkey: Valkey):
    with connect(own_valkey.endpoint) as client:
        lock = RedisLock(client, "phone")
        lock.acquire().release()
        assert isinstance(client, Redis)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        with pytest.raises(LockUnavailable) as caught:
            lock.acquire(timeout=5)
        assert isinstance(caught.value.__cause__, RedisError)
        client.config_set("maxmemory", 0)
        lock.acquire(timeout=5).release()


PATCH = "from gevent import monkey\nmonkey.patch_all()\n"
WARNINGS = {"at first": ("-W", "error", "-W", "ignore:the lease:ResourceWarning"), "late": ()}
WITH_GEVENT = """
    from gevent import monkey
    monkey.patch_all()
    import sys, gevent, threading, time
    from locking import LockLost, LockTimeout
    from locking.backends.redis import RedisLock
    from locking.redis_client import connect

    client = connect(sys.argv[1])
    lock = RedisLock(client, "phone", lease=1)
    inside = entered = ticks = 0

    def enter():
        global inside, entered
        with lock.acquire(timeout=90):
            inside += 1
            assert inside == 1, inside
            gevent.sleep(0)
            inside -= 1
            entered += 1

    def tick():
        global ticks
        while True:
            gevent.sleep(0.01)
            ticks += 1

    ticker = gevent.spawn(tick)
    with lock.acquire() as lease:
        jobs = [gevent.spawn(enter) for _ in range(50)]
        while lock.waiters() < 50:
            gevent.sleep(0.01)
        assert not lease.lost.wait(2.0)       # renewed past its lease, and nobody blocked the hub
        assert ticks > 20, ticks
    gevent.joinall(jobs, raise_error=True)
    assert entered == 50

    with lock.acquire():
        killed = gevent.spawn(enter)
        while lock.waiters() < 1:
            gevent.sleep(0.01)
        killed.kill()
        assert lock.waiters() == 0

    gevent.spawn(lambda: lock.acquire() and None).join()   # a greenlet that dies as holder
    RedisLock(client, "phone").acquire(timeout=10).release()
    print("done")
"""


@needs(GEVENT)
@pytest.mark.parametrize("patched", ["at first", "late"])
def test_greenlets_exclude_each_other_and_never_block_the_hub(
    valkey: Redis, valkey_server: Valkey, patched: str
):
    """Late: as in gunicorn with `--preload`, imported in the master and patched in the worker."""
    code = textwrap.dedent(WITH_GEVENT)
    if patched == "late":
        code = code.replace(PATCH, "", 1).replace("inside =", f"{PATCH}inside =", 1)
    done = subprocess.run(
        [sys.executable, *WARNINGS[patched], "-c", code, valkey_server.endpoint],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
