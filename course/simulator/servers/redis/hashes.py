"""Commands on hashes and on sets."""

from __future__ import annotations

from course.simulator.servers.redis.keyspace import Keyspace
from course.simulator.servers.redis.replies import OK, RedisError, Status, integer


class HashCommands(Keyspace):
    """Commands on hashes and on sets."""

    def _c_hset(self, key: bytes, *pairs: bytes) -> int:
        if not pairs or len(pairs) % 2:
            raise RedisError("ERR wrong number of arguments for 'hset' command")
        fields = self._make(key, dict)
        before = len(fields)
        fields.update(zip(pairs[::2], pairs[1::2], strict=True))
        self._touch(key)
        return len(fields) - before

    def _c_hmset(self, key: bytes, *pairs: bytes) -> Status:
        self._c_hset(key, *pairs)
        return OK

    def _c_hsetnx(self, key: bytes, field: bytes, value: bytes) -> int:
        if self._c_hexists(key, field):
            return 0
        return self._c_hset(key, field, value)

    def _c_hget(self, key: bytes, field: bytes) -> bytes | None:
        return (self._typed(key, dict) or {}).get(field)

    def _c_hmget(self, key: bytes, *fields: bytes) -> list[bytes | None]:
        values = self._typed(key, dict) or {}
        return [values.get(field) for field in fields]

    def _c_hgetall(self, key: bytes) -> list[bytes]:
        return [part for pair in (self._typed(key, dict) or {}).items() for part in pair]

    def _c_hkeys(self, key: bytes) -> list[bytes]:
        return list(self._typed(key, dict) or {})

    def _c_hexists(self, key: bytes, field: bytes) -> int:
        return int(field in (self._typed(key, dict) or {}))

    def _c_hlen(self, key: bytes) -> int:
        return len(self._typed(key, dict) or {})

    def _c_hdel(self, key: bytes, *fields: bytes) -> int:
        values = self._typed(key, dict) or {}
        gone = [field for field in dict.fromkeys(fields) if values.pop(field, None) is not None]
        if gone:
            self._changed(key)
        return len(gone)

    def _c_hincrby(self, key: bytes, field: bytes, by: bytes) -> int:
        fields = self._make(key, dict)
        total = integer(fields.get(field, b"0")) + integer(by)
        fields[field] = b"%d" % total
        self._touch(key)
        return total

    def _c_sadd(self, key: bytes, *members: bytes) -> int:
        values = self._make(key, set)
        before = len(values)
        values.update(members)
        self._touch(key)
        return len(values) - before

    def _c_srem(self, key: bytes, *members: bytes) -> int:
        values = self._typed(key, set) or set()
        gone = values & set(members)
        if gone:
            values -= gone
            self._changed(key)
        return len(gone)

    def _c_sismember(self, key: bytes, member: bytes) -> int:
        return int(member in (self._typed(key, set) or ()))

    def _c_scard(self, key: bytes) -> int:
        return len(self._typed(key, set) or ())

    def _c_smembers(self, key: bytes) -> list[bytes]:
        return sorted(self._typed(key, set) or ())
