"""The blocking and the asyncio form of the Redis lock behind one interface, for the same tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from redis import Redis

from locking.redis_client import connect_async
from locking.redis_lock import RedisLock
from locking.redis_lock_async import AsyncRedisLock


class Blocking:
    """Makes blocking locks on a server."""

    def __init__(self, url: str) -> None:
        self.client = Redis.from_url(url, socket_timeout=2)

    def lock(self, name: str = "phone", **settings: Any) -> Any:
        return RedisLock(self.client, name, **settings)

    def close(self) -> None:
        self.client.close()


class Asyncio:
    """Makes asyncio locks on a server, whose event loop runs in a thread of its own.

    The locks and leases have the methods of the blocking ones.
    """

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.client = self.run(self._connect(url))

    async def _connect(self, url: str) -> Any:
        return connect_async(url, timeout=2)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(60)

    def lock(self, name: str = "phone", **settings: Any) -> Any:
        async def make() -> AsyncRedisLock:
            return AsyncRedisLock(self.client, name, **settings)

        return Handle(self, self.run(make()))

    def close(self) -> None:
        self.run(self.client.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.close()


class Handle:
    """A lock or a lease of the asyncio side, whose coroutines are awaited for the caller."""

    def __init__(self, side: Asyncio, inner: Any) -> None:
        self.side, self.inner = side, inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not asyncio.iscoroutinefunction(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = self.side.run(value(*args, **kwargs))
            return Handle(self.side, answer) if name == "acquire" else answer

        return call

    def __enter__(self) -> Handle:
        return Handle(self.side, self.side.run(self.inner.__aenter__()))

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.side.run(self.inner.__aexit__(kind, error, traceback))


SIDES: dict[str, type[Blocking] | type[Asyncio]] = {"blocking": Blocking, "asyncio": Asyncio}
