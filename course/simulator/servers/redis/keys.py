"""Commands on keys of any type: DEL, EXPIRE, PTTL and related ones."""

from __future__ import annotations

from course.simulator.servers.redis.keyspace import Keyspace
from course.simulator.servers.redis.replies import OK, RedisError, Status, integer
from course.simulator.servers.redis.sorted_set import SortedSet

MICROSECONDS = 1_000_000


class KeyCommands(Keyspace):
    """Commands on keys of any type: DEL, EXPIRE, PTTL and related ones."""

    def _c_del(self, *keys: bytes) -> int:
        found = [key for key in dict.fromkeys(keys) if self.find(key) is not None]
        for key in found:
            self._remove(key)
        return len(found)

    _c_unlink = _c_del

    def _c_exists(self, *keys: bytes) -> int:
        return sum(self.find(key) is not None for key in keys)

    def _c_type(self, key: bytes) -> Status:
        names = {bytes: b"string", list: b"list", dict: b"hash", set: b"set", SortedSet: b"zset"}
        value = self.find(key)
        return Status(b"none" if value is None else names[type(value)])

    def _c_keys(self, pattern: bytes) -> list[bytes]:
        if pattern != b"*":
            raise RedisError("ERR the model knows the pattern * only")
        return sorted(key for key in list(self.data) if self.find(key) is not None)

    def _c_dbsize(self) -> int:
        return len(self._c_keys(b"*"))

    def _c_flushall(self, *_mode: bytes) -> Status:
        for key in list(self.data):
            self._remove(key)
        return OK

    _c_flushdb = _c_flushall

    def _expire(self, key: bytes, end: int, option: bytes | None) -> int:
        if self.find(key) is None:
            return 0
        old = self.ends.get(key)
        refused = {
            None: False,
            b"NX": old is not None,
            b"XX": old is None,
            b"GT": old is None or end <= old,
            b"LT": old is not None and end >= old,
        }.get(option and option.upper())
        if refused is None:
            raise RedisError(f"ERR Unsupported option {(option or b'').decode()}")
        if refused:
            return 0
        self._end_at(key, end)
        return 1

    def _c_expire(self, key: bytes, seconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, self.microseconds() // 1000 + integer(seconds) * 1000, option)

    def _c_pexpire(self, key: bytes, milliseconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, self.microseconds() // 1000 + integer(milliseconds), option)

    def _c_expireat(self, key: bytes, seconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, integer(seconds) * 1000, option)

    def _c_pexpireat(self, key: bytes, milliseconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, integer(milliseconds), option)

    def _c_persist(self, key: bytes) -> int:
        if self.find(key) is None or self.ends.pop(key, None) is None:
            return 0
        self._touch(key)
        return 1

    def _c_pttl(self, key: bytes) -> int:
        if self.find(key) is None:
            return -2
        end = self.ends.get(key)
        return -1 if end is None else max(0, end - self.microseconds() // 1000)

    def _c_ttl(self, key: bytes) -> int:
        left = self._c_pttl(key)
        return left if left < 0 else (left + 500) // 1000

    def _c_pexpiretime(self, key: bytes) -> int:
        return -2 if self.find(key) is None else self.ends.get(key, -1)

    def _c_time(self) -> list[bytes]:
        seconds, rest = divmod(self.microseconds(), MICROSECONDS)
        return [b"%d" % seconds, b"%d" % rest]
