"""A cache for Django on Redis that also makes locks: `cache.lock("restock")`.

Set `CACHES["default"]["BACKEND"]` to `locking.django_cache.RedisCache`; all else is Django's own.
"""

from __future__ import annotations

from typing import Any, Unpack

from django.core.cache.backends import redis
from django.utils.functional import cached_property

from locking.backends.redis import RedisLock
from locking.backends.redis_core import RedisLockSettings


class RedisCache(redis.RedisCache):
    """Django's cache on Redis, with locks on the same server, its first if there are several."""

    @cached_property
    def _locks(self) -> Any:
        """The client of this thread's locks: one, because its locks share its connections."""
        return self._cache.get_client(write=True)  # type: ignore[attr-defined]

    def lock(
        self, key: str, version: int | None = None, **settings: Unpack[RedisLockSettings]
    ) -> RedisLock:
        """Return the lock of a key, with the cache's prefix and version; see `RedisLock`."""
        return RedisLock(self._locks, self.make_and_validate_key(key, version=version), **settings)
