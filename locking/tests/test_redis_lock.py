"""The production lock on a real server: exclusion, order, fence, loss."""

from __future__ import annotations

import threading
import time

import pytest
import redis
from redis import Redis

from locking import Hooks, Lease, LockLost, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.redis_client import connect
from locking.tests.helpers import SPAWN, Task, TransportWithPop, eventually, process
from locking.tests.servers import RedisLike, free_port

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


def lock_on(client: Redis, name: str = "phone", **options) -> RedisLock:
    return RedisLock(client, name, **options)


def fence(lease: Lease) -> int:
    assert lease.token is not None
    return lease.token


def count_up(url: str, counter: str, rounds: int) -> None:
    """Read, think, write: loses increments unless the lock excludes."""
    client = connect(url, decode_responses=True)
    lock = RedisLock(client, "counter", lease=5)
    for _ in range(rounds):
        with lock.acquire(timeout=30):
            value = int(client.get(counter) or 0)
            client.set(counter, value + 1)


def hold(url: str, name: str, lease: float) -> None:
    """Take the lock, say so by a key, and never let go."""
    client = connect(url)
    RedisLock(client, name, lease=lease, owner="victim").acquire(timeout=10)
    threading.Event().wait()


def wait_in_line(url: str, name: str) -> None:
    RedisLock(connect(url), name, lease=30).acquire(timeout=60)
    threading.Event().wait()


def test_only_one_of_many_processes_is_inside(store, store_server):
    workers = [
        SPAWN.Process(target=count_up, args=(store_server.endpoint, "n", 200)) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert int(store.get("n")) == 800


def test_only_one_of_many_threads_is_inside(store):
    lock, inside, worst = lock_on(store), [], []

    def enter() -> None:
        for _ in range(50):
            with lock.acquire(timeout=20):
                inside.append(1)
                worst.append(len(inside))
                time.sleep(0)
                inside.pop()

    for task in [Task(enter) for _ in range(8)]:
        task.result()
    assert len(worst) == 400
    assert max(worst) == 1


def test_an_uncontended_pass_costs_two_commands_and_leaves_only_the_fence(store):
    lock = lock_on(store)
    lock.acquire().release()
    before = store.info("commandstats")["cmdstat_evalsha"]["calls"]
    lock.acquire().release()
    assert store.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 2
    assert store.keys() == [b"lock:{phone}:fence"]
    assert 0 < store.ttl("lock:{phone}:fence") <= 3600


def test_waiters_enter_in_the_order_in_which_they_came(store):
    order: list[int] = []
    holder = lock_on(store).acquire()

    def enter(number: int) -> None:
        with lock_on(store).acquire(timeout=20):
            order.append(number)

    tasks = []
    for number in range(10):
        tasks.append(Task(enter, number))
        eventually(lambda: lock_on(store).waiters() == len(tasks))
    holder.release()
    for task in tasks:
        task.result()
    assert order == list(range(10))


def test_a_hand_over_costs_the_next_holder_two_commands(store):
    lock_on(store).acquire().release()
    holder = lock_on(store).acquire()
    heir = Task(lambda: lock_on(store).acquire(timeout=10))
    eventually(lambda: store.info("clients")["blocked_clients"] == 1)
    stats = store.info("commandstats")
    before = stats["cmdstat_evalsha"]["calls"]
    holder.release()
    lease = heir.result()
    stats = store.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == before + 1  # the release alone
    assert lease.token > holder.token
    lease.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_the_fence_grows_with_every_grant(store):
    tokens: list[int] = []
    for _ in range(100):
        with lock_on(store).acquire() as lease:
            tokens.append(fence(lease))
    assert tokens == sorted(set(tokens))


def test_the_fence_is_not_lower_after_the_server_lost_everything(store):
    first = fence(lock_on(store).acquire())
    store.flushall()
    assert fence(lock_on(store).acquire(timeout=0)) > first


def test_the_fence_grows_also_when_the_servers_clock_has_stepped_back(store):
    future = int(time.time() * 1e6) + 60_000_000
    store.set("lock:{phone}:fence", future)
    with lock_on(store).acquire() as lease:
        assert lease.token == future + 1


def test_zero_seconds_are_a_single_try(store):
    with lock_on(store).acquire(), pytest.raises(LockTimeout):
        lock_on(store).acquire(timeout=0)
    assert store.keys() == [b"lock:{phone}:fence"]


def test_a_waiter_that_gives_up_leaves_nothing_behind(store):
    with lock_on(store).acquire():
        began = time.monotonic()
        with pytest.raises(LockTimeout):
            lock_on(store).acquire(timeout=0.3)
        assert 0.3 <= time.monotonic() - began < 2
        assert sorted(store.keys()) == [b"lock:{phone}", b"lock:{phone}:fence"]


def test_an_interrupted_waiter_leaves_nothing_behind(store, monkeypatch):
    class Interrupted(BaseException):
        pass

    holder = lock_on(store).acquire()
    lock = lock_on(store)

    def interrupt(*args: object) -> None:
        raise Interrupted

    monkeypatch.setattr(lock.transport, "pop", interrupt)
    with pytest.raises(Interrupted):
        lock.acquire(timeout=10)
    assert lock.waiters() == 0
    holder.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_the_next_in_line_enters_when_the_holders_process_is_killed(store, store_server):
    with process(hold, store_server.endpoint, "phone", 1.0) as victim:
        eventually(lambda: lock_on(store).owner() == "victim")
        heir = Task(lambda: lock_on(store).acquire(timeout=10))
        eventually(lambda: lock_on(store).waiters() == 1)
        victim.kill()
        assert heir.result(within=5).token


def test_a_dead_waiter_is_skipped(store, store_server):
    holder = lock_on(store).acquire()
    with process(wait_in_line, store_server.endpoint, "phone") as ghost:
        eventually(lambda: lock_on(store).waiters() == 1)
        heir = Task(lambda: lock_on(store).acquire(timeout=20))
        eventually(lambda: lock_on(store).waiters() == 2)
        ghost.kill()
        eventually(lambda: lock_on(store).waiters() == 1)
    holder.release()
    assert heir.result().token > holder.token


def test_a_living_holder_keeps_the_lock_past_its_lease(store):
    with lock_on(store, lease=0.3).acquire() as lease:
        first_end = time.monotonic() + 0.3
        eventually(lambda: time.monotonic() > first_end + 0.3)
        lease.check()
        with pytest.raises(LockTimeout):
            lock_on(store).acquire(timeout=0)


def test_without_renewal_a_lease_is_lost_at_its_end_without_asking_anybody(store):
    lease = lock_on(store, lease=0.2, renew=False).acquire()
    assert not lease.lost.is_set()
    assert lease.lost.wait(5)
    assert lease.remaining() == 0
    with pytest.raises(LockLost):
        lease.check()
    with pytest.raises(LockLost):
        lease.release()


def test_leaving_the_block_of_a_lost_lease_raises(store):
    with pytest.raises(LockLost), lock_on(store).acquire():
        store.flushall()


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


def test_a_client_cannot_release_the_lock_of_another(store):
    mine = lock_on(store, owner="me").acquire()
    lock_on(store).force_release("hand-over")
    other = lock_on(store, owner="you").acquire(timeout=0)
    with pytest.raises(LockLost):
        mine.release()
    assert lock_on(store).owner() == "you"
    other.release()


def test_extend_moves_the_end_and_never_revives_a_lost_lease(store):
    lease = lock_on(store, lease=1, renew=False).acquire()
    lease.extend(30)
    assert 29 < lease.remaining() <= 30
    assert 29_000 < store.pttl("lock:{phone}") <= 30_000
    store.delete("lock:{phone}")
    with pytest.raises(LockLost):
        lease.extend(30)
    assert not store.exists("lock:{phone}")


def test_the_same_thread_may_enter_again_with_the_same_token(store):
    lock = lock_on(store)
    with lock.acquire() as outer:
        with lock.acquire(timeout=0) as inner:
            assert inner.token == outer.token
        outer.check()
        assert lock.owner()
        with pytest.raises(LockTimeout):
            Task(lambda: lock.acquire(timeout=0)).result()
    assert lock.owner() is None


def test_the_owner_and_the_number_of_waiters_are_known(store):
    lock = lock_on(store, owner="till: 7")
    assert lock.owner() is None
    with lock.acquire():
        heir = Task(lambda: lock_on(store).acquire(timeout=10))
        eventually(lambda: lock.waiters() == 1)
        assert lock.owner() == "till: 7"
    heir.result().release()


def test_an_unreachable_server_raises_lock_unavailable_with_its_cause():
    lock = RedisLock(connect(f"redis://127.0.0.1:{free_port()}/0"), "phone")
    with pytest.raises(LockUnavailable) as caught:
        lock.acquire(timeout=5)
    assert isinstance(caught.value.__cause__, redis.exceptions.ConnectionError)


def test_after_a_restart_of_the_server_the_old_lease_is_lost_and_the_lock_works(
    own_store: RedisLike,
):
    client = connect(own_store.endpoint)
    lock = RedisLock(client, "phone")
    before = lock.acquire()
    own_store.restart()
    with pytest.raises(LockLost):
        before.release()
    with lock.acquire(timeout=1) as after:
        assert fence(after) > fence(before)


def test_an_unfair_lock_lets_newcomers_overtake_waiters(store):
    lock = lock_on(store, fair=False)
    holder = lock.acquire()
    waiting = Task(lambda: lock_on(store, fair=False).acquire(timeout=20))
    eventually(lambda: lock.waiters() == 1)
    store.delete("lock:{phone}")  # free, and nobody has been told yet
    passing = lock_on(store, fair=False).acquire(timeout=0)
    passing.release()
    waiting.result().release()
    with pytest.raises(LockLost):
        holder.release()
    assert store.keys() == [b"lock:{phone}:fence"]


def test_a_fair_lock_lets_no_newcomer_overtake_waiters(store):
    lock = lock_on(store)
    holder = lock.acquire()
    waiting = Task(lambda: lock_on(store).acquire(timeout=20))
    eventually(lambda: lock.waiters() == 1)
    store.delete("lock:{phone}")
    with pytest.raises(LockTimeout):
        lock_on(store).acquire(timeout=0)  # it hands the lock to the first in line
    waiting.result(within=5).release()
    with pytest.raises(LockLost):
        holder.release()


@pytest.mark.parametrize("modes", [(False,), (True, False)], ids=["unfair", "mixed"])
def test_all_waiters_enter_whatever_their_modes(store, modes):
    inside: list[int] = []
    worst: list[int] = []

    def enter(fair: bool) -> None:
        lock = lock_on(store, fair=fair)
        for _ in range(40):
            with lock.acquire(timeout=20):
                inside.append(1)
                worst.append(len(inside))
                time.sleep(0)
                inside.pop()

    for task in [Task(enter, modes[number % len(modes)]) for number in range(8)]:
        task.result(within=60)
    assert len(worst) == 320
    assert max(worst) == 1
    assert store.keys() == [b"lock:{phone}:fence"]


def test_hooks_are_told_of_waiting_and_holding(store):
    seen: list[tuple[object, ...]] = []

    class Record(Hooks):
        def waited(self, name: str, seconds: float, acquired: bool) -> None:
            seen.append(("waited", name, acquired))
            assert 0 <= seconds < 10

        def held(self, name: str, seconds: float) -> None:
            seen.append(("held", name))
            assert 0 <= seconds < 10

    with lock_on(store, hooks=Record()).acquire(), pytest.raises(LockTimeout):
        lock_on(store, hooks=Record()).acquire(timeout=0)
    assert seen == [("waited", "phone", True), ("waited", "phone", False), ("held", "phone")]


@pytest.mark.parametrize(("lease", "max_hold"), [(0, None), (-1, None), (10, 0)])
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
