"""Commands on strings: SET, GET, INCR and related ones."""

from __future__ import annotations

from typing import Any

from course.simulator.servers.redis.keyspace import Keyspace
from course.simulator.servers.redis.replies import OK, SYNTAX, RedisError, Status, integer


class StringCommands(Keyspace):
    """Commands on strings: SET, GET, INCR and related ones."""

    def _c_ping(self, message: bytes | None = None) -> Any:
        return Status(b"PONG") if message is None else message

    def _c_get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._typed(key, bytes)
        return value

    def _c_mget(self, *keys: bytes) -> list[bytes | None]:
        values = [self.find(key) for key in keys]
        return [value if isinstance(value, bytes) else None for value in values]

    def _c_setnx(self, key: bytes, value: bytes) -> int:
        if self.find(key) is not None:
            return 0
        self._store(key, value)
        return 1

    def _c_getset(self, key: bytes, value: bytes) -> bytes | None:
        old: bytes | None = self._typed(key, bytes)
        self._store(key, value)
        return old

    def _c_getdel(self, key: bytes) -> bytes | None:
        old: bytes | None = self._typed(key, bytes)
        self._remove(key)
        return old

    def _c_set(self, key: bytes, value: bytes, *options: bytes) -> Any:
        end: int | None = None
        flags = set()
        words = iter(options)
        for word in map(bytes.upper, words):
            if word in (b"PX", b"EX", b"PXAT", b"EXAT"):
                if end is not None:
                    raise RedisError(SYNTAX)
                end = self._set_end(word, next(words, b""))
            elif word in (b"NX", b"XX", b"GET", b"KEEPTTL"):
                flags.add(word)
            else:
                raise RedisError(SYNTAX)
        if {b"NX", b"XX"} <= flags or (b"KEEPTTL" in flags and end is not None):
            raise RedisError(SYNTAX)
        old = self._typed(key, bytes) if b"GET" in flags else self.find(key)
        if (b"NX" in flags and old is not None) or (b"XX" in flags and old is None):
            return old if b"GET" in flags else None
        kept = self.ends.get(key) if b"KEEPTTL" in flags else end
        self._store(key, value)
        if kept is not None:
            self._end_at(key, kept)
        return old if b"GET" in flags else OK

    def _set_end(self, unit: bytes, text: bytes) -> int:
        amount = integer(text)
        if amount <= 0:
            raise RedisError("ERR invalid expire time in 'set' command")
        milliseconds = amount * (1000 if unit.startswith(b"EX") else 1)
        return milliseconds if unit.endswith(b"AT") else self.microseconds() // 1000 + milliseconds

    def _c_setex(self, key: bytes, seconds: bytes, value: bytes) -> Any:
        return self._c_set(key, value, b"EX", seconds)

    def _c_psetex(self, key: bytes, milliseconds: bytes, value: bytes) -> Any:
        return self._c_set(key, value, b"PX", milliseconds)

    def _c_strlen(self, key: bytes) -> int:
        return len(self._typed(key, bytes) or b"")

    def _c_incr(self, key: bytes) -> int:
        return self._c_incrby(key, b"1")

    def _c_decr(self, key: bytes) -> int:
        return self._c_incrby(key, b"-1")

    def _c_incrby(self, key: bytes, by: bytes) -> int:
        total = integer(self._typed(key, bytes) or b"0") + integer(by)
        self.data[key] = b"%d" % total  # keeps the expiry
        self._touch(key)
        return total

    def _c_decrby(self, key: bytes, by: bytes) -> int:
        return self._c_incrby(key, b"%d" % -integer(by))
