"""Commands on sorted sets: ZADD, ZRANGEBYSCORE and related ones."""

from __future__ import annotations

from bisect import bisect_left

from course.simulator.servers.redis.keyspace import Keyspace
from course.simulator.servers.redis.replies import SYNTAX, RedisError, integer, score, span
from course.simulator.servers.redis.sorted_set import SortedSet


def score_text(number: float) -> bytes:
    """Return a score as the server writes it: the shortest text that parses to the same number."""
    if number in (float("inf"), float("-inf")):
        return b"inf" if number > 0 else b"-inf"
    if number == int(number) and abs(number) < 1e17:
        return b"%d" % int(number)
    return repr(number).encode()


def _bound(text: bytes) -> tuple[float, bool]:
    """Parse a bound: `(5` is exclusive, `5` inclusive."""
    if text[:1] == b"(":
        return score(text[1:]), True
    return score(text), False


def _zadd_skips(flags: set[bytes], old: float | None, new: float) -> bool:
    if old is None:
        return b"XX" in flags
    return b"NX" in flags or (b"GT" in flags and new <= old) or (b"LT" in flags and new >= old)


class SortedSetCommands(Keyspace):
    """Commands on sorted sets: ZADD, ZRANGEBYSCORE and related ones."""

    def _c_zadd(self, key: bytes, *words: bytes) -> int:
        flags: set[bytes] = set()
        rest = list(words)
        while rest and rest[0].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH"):
            flags.add(rest.pop(0).upper())
        if not rest or len(rest) % 2:
            raise RedisError(SYNTAX)
        pairs = [(score(rest[n]), rest[n + 1]) for n in range(0, len(rest), 2)]
        existing = self._typed(key, SortedSet)
        members = existing or SortedSet()
        added = changed = 0
        for number, member in pairs:
            old = members.scores.get(member)
            if _zadd_skips(flags, old, number):
                continue
            added += old is None
            changed += old is not None and old != number
            members.put(member, number)
        if added or changed:
            self.data[key] = members
            self._touch(key)
        return added + changed if b"CH" in flags else added

    def _c_zrem(self, key: bytes, *members: bytes) -> int:
        values = self._typed(key, SortedSet)
        if values is None:
            return 0
        gone: int = sum(values.drop(member) for member in members)
        if gone:
            self._changed(key)
        return gone

    def _c_zscore(self, key: bytes, member: bytes) -> bytes | None:
        values = self._typed(key, SortedSet) or SortedSet()
        number = values.scores.get(member)
        return None if number is None else score_text(number)

    def _c_zincrby(self, key: bytes, by: bytes, member: bytes) -> bytes:
        values = self._make(key, SortedSet)
        number = values.scores.get(member, 0.0) + score(by)
        values.put(member, number)
        self._touch(key)
        return score_text(number)

    def _c_zcard(self, key: bytes) -> int:
        return len(self._typed(key, SortedSet) or ())

    def _c_zrank(self, key: bytes, member: bytes) -> int | None:
        values = self._typed(key, SortedSet) or SortedSet()
        number = values.scores.get(member)
        return None if number is None else bisect_left(values.order, (number, member))

    def _zslice(self, key: bytes, start: bytes, stop: bytes) -> list[tuple[float, bytes]]:
        values = self._typed(key, SortedSet) or SortedSet()
        return span(values.order, integer(start), integer(stop))

    def _zbetween(self, key: bytes, low: bytes, high: bytes) -> list[tuple[float, bytes]]:
        (bottom, above), (top, below) = _bound(low), _bound(high)
        values = self._typed(key, SortedSet) or SortedSet()
        return [
            pair
            for pair in values.order
            if (pair[0] > bottom if above else pair[0] >= bottom)
            and (pair[0] < top if below else pair[0] <= top)
        ]

    def _c_zrange(self, key: bytes, start: bytes, stop: bytes, *options: bytes) -> list[bytes]:
        words = [word.upper() for word in options]
        if b"BYSCORE" in words:
            pairs = self._zbetween(key, start, stop)
        else:
            pairs = self._zslice(key, start, stop)
        return self._zreply(pairs, words)

    def _c_zrangebyscore(self, key: bytes, low: bytes, high: bytes, *options: bytes) -> list[bytes]:
        return self._zreply(self._zbetween(key, low, high), [word.upper() for word in options])

    def _zreply(self, pairs: list[tuple[float, bytes]], words: list[bytes]) -> list[bytes]:
        if b"LIMIT" in words:
            place = words.index(b"LIMIT")
            offset, count = integer(words[place + 1]), integer(words[place + 2])
            pairs = pairs[offset:] if count < 0 else pairs[offset : offset + count]
        if b"WITHSCORES" not in words:
            return [member for _, member in pairs]
        return [part for number, member in pairs for part in (member, score_text(number))]

    def _c_zcount(self, key: bytes, low: bytes, high: bytes) -> int:
        return len(self._zbetween(key, low, high))

    def _c_zpopmin(self, key: bytes, count: bytes | None = None) -> list[bytes]:
        pairs = self._zslice(key, b"0", b"%d" % (integer(count or b"1") - 1))
        self._c_zrem(key, *(member for _, member in pairs))
        return self._zreply(pairs, [b"WITHSCORES"])

    def _c_zremrangebyscore(self, key: bytes, low: bytes, high: bytes) -> int:
        return self._c_zrem(key, *(member for _, member in self._zbetween(key, low, high)))

    def _c_zremrangebyrank(self, key: bytes, start: bytes, stop: bytes) -> int:
        return self._c_zrem(key, *(member for _, member in self._zslice(key, start, stop)))
