"""Our lock and its peers behind one small surface, so that one case can be played on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
import redis.lock
import redis_lock

from locking.backends.redis import RedisLock


class Adapter:
    """One handle.  A call that the library refuses ends with the library's own error."""

    name = ""

    def __init__(self, client: redis.Redis, lock: str, lease: float | None = None) -> None:
        self.key = lock
        self.inner: Any = self.make(client, lock, lease)

    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        raise NotImplementedError

    def acquire(self, **options: Any) -> Any:
        return self.inner.acquire(**options)


class Ours(Adapter):
    name = "locking"

    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        self.key = f"lock:{{{lock}}}"
        return RedisLock(client, lock) if lease is None else RedisLock(client, lock, lease=lease)


class RedisPy(Adapter):
    name = "redis-py"

    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        return redis.lock.Lock(client, lock, timeout=lease, sleep=0.01)

    def acquire(self, **options: Any) -> Any:
        if "timeout" in options:
            options["blocking_timeout"] = options.pop("timeout")
        return super().acquire(**options)


class PythonRedisLock(Adapter):
    name = "python-redis-lock"

    def make(self, client: redis.Redis, lock: str, lease: float | None) -> Any:
        self.key = f"lock:{lock}"
        expire = None if lease is None else max(1, round(lease))
        return redis_lock.Lock(client, lock, expire=expire, auto_renewal=lease is not None)


ADAPTERS: tuple[type[Adapter], ...] = (Ours, RedisPy, PythonRedisLock)


def outcome(call: Callable[[], Any]) -> str:
    """Return what a call came to: its result in a word, or the name of its error."""
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        return type(error).__name__
    if result is None:
        return "done"
    return str(result) if isinstance(result, bool | str) else "acquired"
