"""`cache.lock`, for those who come from django-redis or python-redis-lock."""

from __future__ import annotations

import pytest
from redis import Redis

from locking import LockTimeout
from locking.backends.redis import RedisLock
from locking.django_cache import RedisCache
from locking.tests.helpers import fence
from locking.tests.servers import Valkey


def test_a_cache_makes_locks_of_its_keys_on_its_server(valkey: Redis, valkey_server: Valkey):
    cache = RedisCache(valkey_server.endpoint, {"KEY_PREFIX": "shop"})
    cache.set("phone", 7)
    with cache.lock("phone", owner="till 7", lease=5) as lease:
        assert RedisLock(valkey, "shop:1:phone").owner() == "till 7"
        with pytest.raises(LockTimeout):
            RedisCache(valkey_server.endpoint, {"KEY_PREFIX": "shop"}).lock("phone").acquire(0)
        cache.lock("phone", version=2).acquire(timeout=0).release()
        assert lease.token
    with cache.lock("phone", timeout=0) as later:
        assert fence(later) > fence(lease)
    assert cache.get("phone") == 7
    cache.close()
