"""What the peers' own tests are about, case by case in our words, and what each library does.

Read in the tests of redis-py 8.1 (`tests/test_lock.py`) and python-redis-lock 4.0.1
(`tests/test_redis_lock.py`); nothing is copied.  What each comes to is the table of
docs/locks-compared.md."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.lock
import redis_lock
from redis import Redis

from locking.backends.redis import RedisLock
from locking.tests.helpers import Task


class Adapter:
    """One handle.  A call that the library refuses ends with the library's own error."""

    def __init__(self, client: redis.Redis, lock: str, lease: float | None = None) -> None:
        self.key = lock
        self.inner: Any = self.make(client, lock, lease)

    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        raise NotImplementedError

    def acquire(self, **options: Any) -> Any:
        return self.inner.acquire(**options)


class Ours(Adapter):
    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        self.key = f"lock:{{{lock}}}"
        return RedisLock(client, lock) if lease is None else RedisLock(client, lock, lease=lease)


class RedisPy(Adapter):
    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        return redis.lock.Lock(client, lock, timeout=lease, sleep=0.01)

    def acquire(self, **options: Any) -> Any:
        if "timeout" in options:
            options["blocking_timeout"] = options.pop("timeout")
        return super().acquire(**options)


class PythonRedisLock(Adapter):
    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        self.key = f"lock:{lock}"
        expire = None if lease is None else max(1, round(lease))
        return redis_lock.Lock(client, lock, expire=expire, auto_renewal=lease is not None)


ADAPTERS = {"locking": Ours, "redis-py": RedisPy, "python-redis-lock": PythonRedisLock}


def outcome(call: Callable[[], Any]) -> str:
    """Return what a call came to: its result in a word, or the name of its error."""
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        return type(error).__name__
    if result is None:
        return "done"
    return str(result) if isinstance(result, bool | str) else "acquired"


Make = Callable[..., Adapter]


def free(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    first = bool(lock.acquire())
    return f"{first} {lock.inner.locked()}"


def one_try(client: redis.Redis, make: Make) -> str:
    make("phone").acquire()
    return outcome(lambda: make("phone").acquire(blocking=False))


def waits_in_vain(client: redis.Redis, make: Make) -> str:
    make("phone").acquire()
    return outcome(lambda: make("phone").acquire(timeout=1))


def negative_timeout(client: redis.Redis, make: Make) -> str:
    make("phone").acquire()
    return outcome(lambda: make("phone").acquire(timeout=-1))


def one_try_with_timeout(client: redis.Redis, make: Make) -> str:
    make("phone").acquire()
    return outcome(lambda: make("phone").acquire(blocking=False, timeout=1))


def release_without(client: redis.Redis, make: Make) -> str:
    return outcome(make("phone").inner.release)


def release_twice(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    lock.acquire()
    lock.inner.release()
    return outcome(lock.inner.release)


def release_lost(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    lock.acquire()
    client.flushall()
    return outcome(lock.inner.release)


def release_of_anothers(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    lock.acquire()
    client.delete(lock.key)
    other = make("phone")
    other.acquire(timeout=5)
    told = outcome(lock.inner.release)
    return f"{told}, {'kept' if client.exists(lock.key) else 'taken away'}"


def block(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    with lock.inner:
        inside = bool(client.exists(lock.key))
    return f"{inside} {bool(client.exists(lock.key))}"


def block_that_fails(client: redis.Redis, make: Make) -> str:
    lock = make("phone")

    def body() -> None:
        with lock.inner:
            raise ZeroDivisionError

    return f"{outcome(body)}, {'held' if client.exists(lock.key) else 'free'}"


def block_of_a_lost_lock(client: redis.Redis, make: Make) -> str:
    lock = make("phone")

    def body() -> None:
        with lock.inner:
            client.flushall()

    return outcome(body)


def again(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    lock.acquire()
    return outcome(lambda: lock.acquire(blocking=False))


def another_thread_releases(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    lock.acquire()
    return str(Task(lambda: outcome(lock.inner.release)).result())


def no_lease_given(client: redis.Redis, make: Make) -> str:
    lock = make("phone")
    lock.acquire()
    return "never expires" if client.pttl(lock.key) == -1 else "expires, is renewed"


def extend_by_twenty(client: redis.Redis, make: Make) -> str:
    lock = make("phone", 10)
    lock.acquire()
    lock.inner.extend(20)
    seconds = round(int(client.pttl(lock.key)) / 1000)
    told = outcome(lock.inner.release)
    return f"{seconds} s left, {told}"


def extend_lost(client: redis.Redis, make: Make) -> str:
    lock = make("phone", 10)
    lock.acquire()
    client.flushall()
    return f"{outcome(lambda: lock.inner.extend(20))}, {client.exists(lock.key)} keys"


def fence(client: redis.Redis, make: Make) -> str:
    token = getattr(make("phone").acquire(), "token", None)
    return "yes" if isinstance(token, int) else "none"


CASES = {
    "acquire a free lock; `locked()`": free,
    "one try at a held lock": one_try,
    "wait a second in vain": waits_in_vain,
    "a time-out of -1": negative_timeout,
    "one try with a time-out": one_try_with_timeout,
    "release without acquire": release_without,
    "release twice": release_twice,
    "release a lost lock": release_lost,
    "release after another has acquired": release_of_anothers,
    "held inside `with`, and afterwards": block,
    "the body of `with` raises": block_that_fails,
    "the lock is lost inside `with`": block_of_a_lost_lock,
    "acquire the same handle again": again,
    "another thread releases by the same handle": another_thread_releases,
    "no lease is given": no_lease_given,
    "a lease of 10 s, at once `extend(20)`": extend_by_twenty,
    "extend a lost lock": extend_lost,
    "a fencing token": fence,
}
"""What is played for each row of the table."""

# The cases leave locks held.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
    pytest.mark.usefixtures("dropped_leases"),
]

DOCUMENT = Path(__file__).parents[2] / "docs" / "locks-compared.md"
ROWS = {
    cells[0]: dict(zip(ADAPTERS, cells[1:4], strict=True))
    for line in re.findall(r"^\| (.*) \|$", DOCUMENT.read_text(), flags=re.MULTILINE)
    if (cells := line.split(" | "))[0] in CASES
}


def test_the_table_has_every_case():
    assert ROWS.keys() == CASES.keys()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("library", ADAPTERS)
def test_a_library_does_what_the_table_says_of_it(valkey_server, valkey: Redis, case, library):
    # As the libraries themselves advise: a pop that blocks outlasts redis-py's own time-out.
    client = Redis.from_url(valkey_server.endpoint, socket_timeout=None)
    kept: list[Adapter] = []

    def make(*arguments) -> Adapter:
        kept.append(ADAPTERS[library](client, *arguments))
        return kept[-1]

    assert CASES[case](client, make) == ROWS[case][library]
    client.close()
