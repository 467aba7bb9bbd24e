"""What users of other lock libraries ran into, one test each, named after it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from enum import Enum
from typing import Self
from unittest.mock import Mock

import pytest
from redis import Redis

from locking import Hooks, LockLost, LockTimeout, LockUnavailable
from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import MUTEX
from locking.redis_client import connect
from locking.renewal import Renewer
from locking.tests.helpers import (
    Interrupted,
    Task,
    TransportWithPop,
    ask,
    eventually,
    lock_on,
    process,
)
from locking.tests.servers import Valkey

# Some of these tests drop a lease on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")


class Fault(Enum):
    """What becomes of the next answer of the server."""

    RESET = "the connection breaks after the server has carried the command out"
    SILENCE = "the answer never comes"


class Proxy:
    """Forwards to 127.0.0.1:`port`; `lose` spoils the answer to the next command that it names."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._plan: dict[bytes, Fault] = {}
        self._sockets: list[socket.socket] = []
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, command: str, fault: Fault = Fault.RESET) -> None:
        """Spoil the answer to the next request that contains `command`."""
        self._plan[command.encode()] = fault

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed: the test is over
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        # One request, one answer: all that a lock's connection ever does.
        with suppress(OSError), client, server:
            while request := client.recv(1 << 16):
                named = next((command for command in self._plan if command in request), b"")
                fault = self._plan.pop(named, None)
                server.sendall(request)
                answer = server.recv(1 << 16)
                self.lost += fault is not None
                if fault is Fault.RESET or not answer:
                    return
                if fault is None:
                    client.sendall(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def hold_without_renewal(url: str, name: str, lease: float) -> None:
    RedisLock(connect(url), name, lease=lease, renew=False, owner="victim").acquire()
    threading.Event().wait()


@pytest.mark.parametrize("fault", Fault)
def test_redis_py_8_1_acquire_whose_reply_was_lost_still_holds_the_lock(
    valkey: Redis, valkey_server: Valkey, fault: Fault
):
    RedisLock(valkey, "warm").acquire().release()  # so that the script is known by its hash
    with Proxy(valkey_server.port) as proxy:
        lock = RedisLock(connect(proxy.url, timeout=0.3), "phone")
        proxy.lose(MUTEX.acquire.sha, fault)
        with lock.acquire(timeout=0) as lease:
            assert valkey.get("lock:{phone}:fence") == str(lease.token).encode()
        assert proxy.lost == 1
    assert not valkey.exists("lock:{phone}")


@pytest.mark.parametrize("fault", Fault)
def test_a_release_whose_reply_was_lost_counts_as_a_release(
    valkey: Redis, valkey_server: Valkey, fault: Fault
):
    with Proxy(valkey_server.port) as proxy:
        lock = RedisLock(connect(proxy.url, timeout=0.3), "phone")
        with lock.acquire():
            heir = Task(lambda: RedisLock(valkey, "phone").acquire(timeout=10))
            eventually(lambda: RedisLock(valkey, "phone").waiters() == 1)
            proxy.lose(MUTEX.release.sha, fault)
        assert proxy.lost == 1
    heir.result().release()


def test_a_wake_up_whose_reply_was_lost_is_found_at_the_next_step(
    valkey: Redis, valkey_server: Valkey
):
    holder = RedisLock(valkey, "phone").acquire()
    with Proxy(valkey_server.port) as proxy:
        proxy.lose("BLPOP")
        heir = Task(lambda: RedisLock(connect(proxy.url), "phone").acquire(timeout=10))
        eventually(lambda: valkey.info("clients")["blocked_clients"] == 1)
        holder.release()
        lease = heir.result(within=5)
        assert proxy.lost == 1
        lease.release()


def test_redis_py_blocking_timeout_below_the_poll_interval_gives_up_at_once(valkey: Redis):
    holder = RedisLock(valkey, "phone").acquire()
    heir = Task(lambda: RedisLock(valkey, "phone").acquire(timeout=0.5))
    eventually(lambda: RedisLock(valkey, "phone").waiters() == 1)
    holder.release()
    heir.result().release()


def test_python_redis_lock_4_0_1_waiter_sleeps_for_its_own_lease_instead_of_the_holders(
    valkey: Redis, valkey_server: Valkey
):
    with process(hold_without_renewal, valkey_server.endpoint, "phone", 0.5) as victim:
        eventually(lambda: RedisLock(valkey, "phone").owner() == "victim")
        heir = Task(lambda: RedisLock(valkey, "phone", lease=60).acquire(timeout=20))
        eventually(lambda: RedisLock(valkey, "phone").waiters() == 1)
        victim.kill()
        heir.result(within=3).release()


def test_python_redis_lock_timeout_does_not_end_under_repeated_wake_ups(valkey: Redis):
    lock = RedisLock(valkey, "phone")
    wake_in_vain = Mock(return_value=b"0:0")
    lock.remote.transport = TransportWithPop(lock.remote.transport, wake_in_vain)
    with RedisLock(valkey, "phone"), pytest.raises(LockTimeout):
        Task(lock.acquire, timeout=0.3).result(within=20)
    assert wake_in_vain.call_count > 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_python_redis_lock_renewal_thread_dies_and_the_body_never_learns(valkey: Redis):
    class FragileOnce(Renewer):
        failures = 1

        def renew_due(self, server) -> float:
            if self.failures:
                self.failures -= 1
                raise SystemExit  # whatever may end a thread
            return super().renew_due(server)

    lock = lock_on(valkey, "phone", lease=0.3, renewer=FragileOnce())
    lease = lock.acquire()
    assert lease.lost.wait(5)
    with pytest.raises(LockLost):
        lease.release()
    with lock.acquire(timeout=5) as later:  # starts another thread
        assert not later.lost.wait(0.7)


def test_python_redis_lock_a_hook_that_raises_does_not_end_the_renewal(valkey: Redis, caplog):
    class Broken(Hooks):
        def lost(self, name: str, reason: str) -> None:
            raise RuntimeError("the metrics are broken")

    broken = RedisLock(valkey, "broken", lease=0.3, hooks=Broken()).acquire()
    broken_lock = RedisLock(valkey, "broken")
    with RedisLock(valkey, "phone", lease=0.3).acquire() as lease:
        broken_lock.force_release("so that its hook raises")
        eventually(lambda: "the metrics are broken" in caplog.text)
        assert not lease.lost.wait(0.7)
    with pytest.raises(LockLost):
        broken.release()


def test_redisson_7272_watchdog_outlives_the_unlock(valkey: Redis):
    renewer = Renewer()
    lock = lock_on(valkey, "phone", lease=0.3, renewer=renewer)
    lock.acquire().release()
    assert not renewer._servers[id(lock.remote.transport)].entries
    valkey.set("lock:{phone}", "1:a-token:another", px=200)
    eventually(lambda: not valkey.exists("lock:{phone}"), within=2)


def test_redisson_3521_watchdog_outlives_its_dead_thread(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=0.4)
    Task(lambda: lock.acquire() and None).result()  # nobody has the lease
    RedisLock(valkey, "phone").acquire(timeout=5).release()


def test_redisson_5761_lost_wake_up_leaves_the_waiter_asleep(valkey: Redis):
    holder = RedisLock(valkey, "phone", lease=60).acquire()
    lock = RedisLock(valkey, "phone")
    transport = lock.remote.transport
    lost: list[bytes] = []

    def lose_the_first(key: str, seconds: float):
        message = transport.pop(key, seconds)
        if message and not lost:
            lost.append(message)
            return None
        return message

    lock.remote.transport = TransportWithPop(transport, lose_the_first)
    heir = Task(lambda: lock.acquire(timeout=30))
    eventually(lambda: valkey.info("clients")["blocked_clients"] == 1)
    holder.release()
    heir.result(within=5).release()
    assert len(lost) == 1


def test_redisson_6510_millions_of_fence_keys_leak(valkey: Redis):
    for number in range(50):
        RedisLock(valkey, f"item-{number}").acquire().release()
    keys = valkey.keys()
    assert len(keys) == 50
    assert all(0 < valkey.ttl(key) <= 3600 for key in keys)


def test_redis_py_3847_release_forgets_its_token_when_the_server_errs(own_valkey: Valkey):
    lock = RedisLock(connect(own_valkey.endpoint, timeout=0.2), "phone", lease=30)
    lease = lock.acquire()
    with own_valkey.stopped(), pytest.raises(LockUnavailable):
        lease.release()
    assert not lease.released
    lease.release()
    assert lock.owner() is None


def test_redlock_rb_36_extend_re_creates_a_lost_lock(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=0.2, renew=False)
    lease = lock.acquire()
    eventually(lambda: not valkey.exists("lock:{phone}"))
    with pytest.raises(LockLost):
        lease.extend(10)
    assert not ask(lock, MUTEX.renew, lease.holder, "1000", "1")
    assert not valkey.exists("lock:{phone}")


def test_sherlock_66_renew_called_release(valkey: Redis):
    lock = RedisLock(valkey, "phone", lease=1, renew=False)
    lease = lock.acquire()
    lease.extend(5)
    assert 1_000 < valkey.pttl("lock:{phone}") <= 5_000
    assert lock.owner()
    lease.release()


def test_kazoo_760_cancelled_waiter_leaves_its_node(valkey: Redis):
    holder, lock = RedisLock(valkey, "phone").acquire(), RedisLock(valkey, "phone")

    def granted_and_cancelled(key: str, seconds: float):
        holder.release()  # the lock is handed over, and the waiter dies before it knows
        raise Interrupted

    lock.remote.transport = TransportWithPop(lock.remote.transport, granted_and_cancelled)
    with pytest.raises(Interrupted):
        lock.acquire()
    assert valkey.keys() == [b"lock:{phone}:fence"]
