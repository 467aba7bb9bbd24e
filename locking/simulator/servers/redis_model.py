"""A Redis (or Valkey) server in memory: the commands that locks are made of.

One command at a time runs to its end, as on the real server, so a plain Python object is a
faithful model of it.  Time is asked of the caller's clock, which is how a lease of ten seconds
can end at once in a test.  The model is compared with a real server, command by command, by
`locking/tests/test_simulator_redis_model.py`.

Keys and values are `bytes`; replies are what redis-py reads from the wire: `int`, `bytes`,
`None`, `list`, or `Status` for a line such as `+OK`.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any

MICROSECONDS = 1_000_000


class RedisError(Exception):
    """An error reply; the text is what the server would send after the minus sign."""


class Status(bytes):
    """A status reply (`+OK`), which a script sees as a table and not as a string."""

    __slots__ = ()


OK = Status(b"OK")
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
NOT_A_FLOAT = "ERR value is not a valid float"
SYNTAX = "ERR syntax error"


class SortedSet:
    """Members by score, then by name; small, so a sorted list beats anything cleverer."""

    __slots__ = ("order", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.scores)

    def put(self, member: bytes, score: float) -> None:
        """Add the member, or move it to another score."""
        self.drop(member)
        self.scores[member] = score
        insort(self.order, (score, member))

    def drop(self, member: bytes) -> bool:
        """Take the member out; whether it was there."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True


def integer(text: bytes) -> int:
    """The number in an argument, or the server's error."""
    try:
        return int(text)
    except ValueError:
        raise RedisError(NOT_AN_INTEGER) from None


def score(text: bytes) -> float:
    """A sorted set's score, or the server's error."""
    try:
        return float(text)
    except ValueError:
        raise RedisError(NOT_A_FLOAT) from None


def score_text(number: float) -> bytes:
    """A score as the server writes it: the shortest text that reads back as the same number."""
    if number in (float("inf"), float("-inf")):
        return b"inf" if number > 0 else b"-inf"
    if number == int(number) and abs(number) < 1e17:
        return b"%d" % int(number)
    return repr(number).encode()


def _bound(text: bytes) -> tuple[float, bool]:
    """`(5` is exclusive, `5` inclusive."""
    if text[:1] == b"(":
        return score(text[1:]), True
    return score(text), False


def _slice(values: list[Any], start: int, stop: int) -> list[Any]:
    """Redis ranges: both ends count, negative ones from the right."""
    size = len(values)
    first = max(start + size, 0) if start < 0 else start
    last = stop + size if stop < 0 else stop
    return values[first : last + 1] if last >= first else []


class RedisModel:
    """The server's data and its commands.

    `clock` answers the server's own time of day in microseconds.  `written` counts changes,
    `revision` says at which of them a key changed last: by it an observer sees that a key was
    replaced, also by an equal value.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.data: dict[bytes, Any] = {}
        self.ends: dict[bytes, int] = {}  # the key's end, in milliseconds of the server's clock
        self.revision: dict[bytes, int] = {}
        self.written = 0
        self.pushed: list[bytes] = []  # lists that grew: a blocked client may be served
        self.published: list[tuple[bytes, bytes]] = []
        self.scripts: dict[bytes, bytes] = {}
        self.frozen: int | None = None  # inside a script, time stands still
        self.eval: Callable[[bytes, list[bytes], list[bytes]], Any] | None = None
        self._commands: dict[bytes, Callable[..., Any]] = {
            name[2:].upper().encode(): getattr(self, name)
            for name in dir(self)
            if name.startswith("c_")
        }

    # -- entry points

    def execute(self, name: bytes, args: Iterable[bytes]) -> Any:
        """Run one command and give its reply; `RedisError` for an error reply."""
        command = self._commands.get(name)
        if command is None:
            command = self._commands.get(name.upper())
        if command is None:
            raise RedisError(f"ERR unknown command '{name.decode()}'")
        try:
            return command(*args)
        except TypeError as problem:
            if "positional argument" not in str(problem):
                raise
            raise RedisError(
                f"ERR wrong number of arguments for '{name.decode().lower()}' command"
            ) from problem

    def snapshot(self) -> tuple[dict[bytes, Any], dict[bytes, int]]:
        """A copy of all data, for a replica that lags behind."""
        return copy.deepcopy(self.data), dict(self.ends)

    def restore(self, snapshot: tuple[dict[bytes, Any], dict[bytes, int]]) -> None:
        """Become the server that has this data: a promoted replica, or one restarted empty."""
        for key in set(self.data) | set(snapshot[0]):
            self._touch(key)
        self.data, self.ends = snapshot

    def microseconds(self) -> int:
        """The server's time of day; the same throughout a script."""
        return self.clock() if self.frozen is None else self.frozen

    def find(self, key: bytes) -> Any:
        """The key's value, None if there is none or it has expired."""
        end = self.ends.get(key)
        if end is not None and end <= self.microseconds() // 1000:
            self._remove(key)
            return None
        return self.data.get(key)

    # -- storage

    def _touch(self, key: bytes) -> None:
        self.written += 1
        self.revision[key] = self.written

    def _remove(self, key: bytes) -> None:
        self.ends.pop(key, None)
        if self.data.pop(key, None) is not None:
            self._touch(key)

    def _store(self, key: bytes, value: Any) -> None:
        """Replace the value and forget its end, as SET does."""
        self.data[key] = value
        self.ends.pop(key, None)
        self._touch(key)

    def _typed(self, key: bytes, kind: type) -> Any:
        value = self.find(key)
        if value is not None and not isinstance(value, kind):
            raise RedisError(WRONG_TYPE)
        return value

    def _make(self, key: bytes, kind: type) -> Any:
        value = self._typed(key, kind)
        if value is None:
            value = self.data[key] = kind()
        return value

    def _changed(self, key: bytes) -> None:
        """After a change in place: empty containers do not exist."""
        self._touch(key)
        if not self.data[key]:
            del self.data[key]
            self.ends.pop(key, None)

    def _end_at(self, key: bytes, milliseconds: int) -> None:
        self.ends[key] = milliseconds
        self._touch(key)
        self.find(key)  # an end in the past deletes at once

    # -- strings

    def c_ping(self, message: bytes | None = None) -> Any:
        return Status(b"PONG") if message is None else message

    def c_get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._typed(key, bytes)
        return value

    def c_mget(self, *keys: bytes) -> list[bytes | None]:
        values = [self.find(key) for key in keys]
        return [value if isinstance(value, bytes) else None for value in values]

    def c_setnx(self, key: bytes, value: bytes) -> int:
        if self.find(key) is not None:
            return 0
        self._store(key, value)
        return 1

    def c_getset(self, key: bytes, value: bytes) -> bytes | None:
        old: bytes | None = self._typed(key, bytes)
        self._store(key, value)
        return old

    def c_getdel(self, key: bytes) -> bytes | None:
        old: bytes | None = self._typed(key, bytes)
        self._remove(key)
        return old

    def c_set(self, key: bytes, value: bytes, *options: bytes) -> Any:
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
        return (
            milliseconds
            if unit.endswith(b"AT")
            else self.microseconds() // 1000 + milliseconds
        )

    def c_setex(self, key: bytes, seconds: bytes, value: bytes) -> Any:
        return self.c_set(key, value, b"EX", seconds)

    def c_psetex(self, key: bytes, milliseconds: bytes, value: bytes) -> Any:
        return self.c_set(key, value, b"PX", milliseconds)

    def c_strlen(self, key: bytes) -> int:
        return len(self._typed(key, bytes) or b"")

    def c_incr(self, key: bytes) -> int:
        return self.c_incrby(key, b"1")

    def c_decr(self, key: bytes) -> int:
        return self.c_incrby(key, b"-1")

    def c_incrby(self, key: bytes, by: bytes) -> int:
        total = integer(self._typed(key, bytes) or b"0") + integer(by)
        self.data[key] = b"%d" % total  # the end, if any, stays
        self._touch(key)
        return total

    def c_decrby(self, key: bytes, by: bytes) -> int:
        return self.c_incrby(key, b"%d" % -integer(by))

    # -- keys

    def c_del(self, *keys: bytes) -> int:
        found = [key for key in dict.fromkeys(keys) if self.find(key) is not None]
        for key in found:
            self._remove(key)
        return len(found)

    c_unlink = c_del

    def c_exists(self, *keys: bytes) -> int:
        return sum(self.find(key) is not None for key in keys)

    def c_type(self, key: bytes) -> Status:
        names = {bytes: b"string", list: b"list", dict: b"hash", set: b"set", SortedSet: b"zset"}
        value = self.find(key)
        return Status(b"none" if value is None else names[type(value)])

    def c_keys(self, pattern: bytes) -> list[bytes]:
        if pattern != b"*":
            raise RedisError("ERR the model knows the pattern * only")
        return sorted(key for key in list(self.data) if self.find(key) is not None)

    def c_dbsize(self) -> int:
        return len(self.c_keys(b"*"))

    def c_flushall(self, *_mode: bytes) -> Status:
        for key in list(self.data):
            self._remove(key)
        return OK

    c_flushdb = c_flushall

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

    def c_expire(self, key: bytes, seconds: bytes, option: bytes | None = None) -> int:
        return self._expire(
            key, self.microseconds() // 1000 + integer(seconds) * 1000, option
        )

    def c_pexpire(self, key: bytes, milliseconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, self.microseconds() // 1000 + integer(milliseconds), option)

    def c_expireat(self, key: bytes, seconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, integer(seconds) * 1000, option)

    def c_pexpireat(self, key: bytes, milliseconds: bytes, option: bytes | None = None) -> int:
        return self._expire(key, integer(milliseconds), option)

    def c_persist(self, key: bytes) -> int:
        if self.find(key) is None or self.ends.pop(key, None) is None:
            return 0
        self._touch(key)
        return 1

    def c_pttl(self, key: bytes) -> int:
        if self.find(key) is None:
            return -2
        end = self.ends.get(key)
        return -1 if end is None else max(0, end - self.microseconds() // 1000)

    def c_ttl(self, key: bytes) -> int:
        left = self.c_pttl(key)
        return left if left < 0 else (left + 500) // 1000

    def c_pexpiretime(self, key: bytes) -> int:
        return -2 if self.find(key) is None else self.ends.get(key, -1)

    def c_time(self) -> list[bytes]:
        seconds, rest = divmod(self.microseconds(), MICROSECONDS)
        return [b"%d" % seconds, b"%d" % rest]

    # -- lists

    def _push(self, key: bytes, values: tuple[bytes, ...], *, left: bool) -> int:
        if not values:
            raise RedisError("ERR wrong number of arguments for 'push' command")
        items = self._make(key, list)
        if left:
            items[:0] = reversed(values)
        else:
            items.extend(values)
        self._touch(key)
        self.pushed.append(key)
        return len(items)

    def c_lpush(self, key: bytes, *values: bytes) -> int:
        return self._push(key, values, left=True)

    def c_rpush(self, key: bytes, *values: bytes) -> int:
        return self._push(key, values, left=False)

    def _pop(self, key: bytes, index: int, count: bytes | None = None) -> Any:
        items = self._typed(key, list)
        if not items:
            return None
        taken = [items.pop(index) for _ in range(min(len(items), integer(count or b"1")))]
        self._changed(key)
        return taken[0] if count is None else taken

    def c_lpop(self, key: bytes, count: bytes | None = None) -> Any:
        return self._pop(key, 0, count)

    def c_rpop(self, key: bytes, count: bytes | None = None) -> Any:
        return self._pop(key, -1, count)

    def c_blpop(self, *keys_and_timeout: bytes) -> list[bytes] | None:
        """The first element of the first list that has one; who waits is the caller's business."""
        score(keys_and_timeout[-1])
        for key in keys_and_timeout[:-1]:
            value = self._pop(key, 0)
            if value is not None:
                return [key, value]
        return None

    def c_llen(self, key: bytes) -> int:
        return len(self._typed(key, list) or ())

    def c_lindex(self, key: bytes, index: bytes) -> bytes | None:
        items = self._typed(key, list) or []
        place = integer(index)
        return items[place] if -len(items) <= place < len(items) else None

    def c_lrange(self, key: bytes, start: bytes, stop: bytes) -> list[bytes]:
        return _slice(self._typed(key, list) or [], integer(start), integer(stop))

    def c_ltrim(self, key: bytes, start: bytes, stop: bytes) -> Status:
        items = self._typed(key, list)
        if items is not None:
            items[:] = _slice(items, integer(start), integer(stop))
            self._changed(key)
        return OK

    def c_lrem(self, key: bytes, count: bytes, value: bytes) -> int:
        items = self._typed(key, list)
        if items is None:
            return 0
        limit = integer(count)
        places = [place for place, item in enumerate(items) if item == value]
        chosen = places[limit:] if limit < 0 else places[: limit or None]
        for place in reversed(chosen):
            del items[place]
        if chosen:
            self._changed(key)
        return len(chosen)

    def c_lpos(self, key: bytes, value: bytes) -> int | None:
        items = self._typed(key, list) or []
        return items.index(value) if value in items else None

    # -- hashes

    def c_hset(self, key: bytes, *pairs: bytes) -> int:
        if not pairs or len(pairs) % 2:
            raise RedisError("ERR wrong number of arguments for 'hset' command")
        fields = self._make(key, dict)
        before = len(fields)
        fields.update(zip(pairs[::2], pairs[1::2], strict=True))
        self._touch(key)
        return len(fields) - before

    def c_hmset(self, key: bytes, *pairs: bytes) -> Status:
        self.c_hset(key, *pairs)
        return OK

    def c_hsetnx(self, key: bytes, field: bytes, value: bytes) -> int:
        if self.c_hexists(key, field):
            return 0
        return self.c_hset(key, field, value)

    def c_hget(self, key: bytes, field: bytes) -> bytes | None:
        return (self._typed(key, dict) or {}).get(field)

    def c_hmget(self, key: bytes, *fields: bytes) -> list[bytes | None]:
        values = self._typed(key, dict) or {}
        return [values.get(field) for field in fields]

    def c_hgetall(self, key: bytes) -> list[bytes]:
        return [part for pair in (self._typed(key, dict) or {}).items() for part in pair]

    def c_hkeys(self, key: bytes) -> list[bytes]:
        return list(self._typed(key, dict) or {})

    def c_hexists(self, key: bytes, field: bytes) -> int:
        return int(field in (self._typed(key, dict) or {}))

    def c_hlen(self, key: bytes) -> int:
        return len(self._typed(key, dict) or {})

    def c_hdel(self, key: bytes, *fields: bytes) -> int:
        values = self._typed(key, dict) or {}
        gone = [field for field in dict.fromkeys(fields) if values.pop(field, None) is not None]
        if gone:
            self._changed(key)
        return len(gone)

    def c_hincrby(self, key: bytes, field: bytes, by: bytes) -> int:
        fields = self._make(key, dict)
        total = integer(fields.get(field, b"0")) + integer(by)
        fields[field] = b"%d" % total
        self._touch(key)
        return total

    # -- sets

    def c_sadd(self, key: bytes, *members: bytes) -> int:
        values = self._make(key, set)
        before = len(values)
        values.update(members)
        self._touch(key)
        return len(values) - before

    def c_srem(self, key: bytes, *members: bytes) -> int:
        values = self._typed(key, set) or set()
        gone = values & set(members)
        if gone:
            values -= gone
            self._changed(key)
        return len(gone)

    def c_sismember(self, key: bytes, member: bytes) -> int:
        return int(member in (self._typed(key, set) or ()))

    def c_scard(self, key: bytes) -> int:
        return len(self._typed(key, set) or ())

    def c_smembers(self, key: bytes) -> list[bytes]:
        return sorted(self._typed(key, set) or ())

    # -- sorted sets

    def c_zadd(self, key: bytes, *words: bytes) -> int:
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

    def c_zrem(self, key: bytes, *members: bytes) -> int:
        values = self._typed(key, SortedSet)
        if values is None:
            return 0
        gone = sum(values.drop(member) for member in members)
        if gone:
            self._changed(key)
        return gone

    def c_zscore(self, key: bytes, member: bytes) -> bytes | None:
        values = self._typed(key, SortedSet) or SortedSet()
        number = values.scores.get(member)
        return None if number is None else score_text(number)

    def c_zincrby(self, key: bytes, by: bytes, member: bytes) -> bytes:
        values = self._make(key, SortedSet)
        number = values.scores.get(member, 0.0) + score(by)
        values.put(member, number)
        self._touch(key)
        return score_text(number)

    def c_zcard(self, key: bytes) -> int:
        return len(self._typed(key, SortedSet) or ())

    def c_zrank(self, key: bytes, member: bytes) -> int | None:
        values = self._typed(key, SortedSet) or SortedSet()
        number = values.scores.get(member)
        return None if number is None else bisect_left(values.order, (number, member))

    def _zslice(self, key: bytes, start: bytes, stop: bytes) -> list[tuple[float, bytes]]:
        values = self._typed(key, SortedSet) or SortedSet()
        return _slice(values.order, integer(start), integer(stop))

    def _zbetween(self, key: bytes, low: bytes, high: bytes) -> list[tuple[float, bytes]]:
        (bottom, above), (top, below) = _bound(low), _bound(high)
        values = self._typed(key, SortedSet) or SortedSet()
        return [
            pair
            for pair in values.order
            if (pair[0] > bottom if above else pair[0] >= bottom)
            and (pair[0] < top if below else pair[0] <= top)
        ]

    def c_zrange(self, key: bytes, start: bytes, stop: bytes, *options: bytes) -> list[bytes]:
        words = [word.upper() for word in options]
        if b"BYSCORE" in words:
            pairs = self._zbetween(key, start, stop)
        else:
            pairs = self._zslice(key, start, stop)
        return self._zreply(pairs, words)

    def c_zrangebyscore(self, key: bytes, low: bytes, high: bytes, *options: bytes) -> list[bytes]:
        return self._zreply(
            self._zbetween(key, low, high), [word.upper() for word in options]
        )

    def _zreply(self, pairs: list[tuple[float, bytes]], words: list[bytes]) -> list[bytes]:
        if b"LIMIT" in words:
            place = words.index(b"LIMIT")
            offset, count = integer(words[place + 1]), integer(words[place + 2])
            pairs = pairs[offset:] if count < 0 else pairs[offset : offset + count]
        if b"WITHSCORES" not in words:
            return [member for _, member in pairs]
        return [part for number, member in pairs for part in (member, score_text(number))]

    def c_zcount(self, key: bytes, low: bytes, high: bytes) -> int:
        return len(self._zbetween(key, low, high))

    def c_zpopmin(self, key: bytes, count: bytes | None = None) -> list[bytes]:
        pairs = self._zslice(key, b"0", b"%d" % (integer(count or b"1") - 1))
        self.c_zrem(key, *(member for _, member in pairs))
        return self._zreply(pairs, [b"WITHSCORES"])

    def c_zremrangebyscore(self, key: bytes, low: bytes, high: bytes) -> int:
        return self.c_zrem(key, *(member for _, member in self._zbetween(key, low, high)))

    def c_zremrangebyrank(self, key: bytes, start: bytes, stop: bytes) -> int:
        return self.c_zrem(key, *(member for _, member in self._zslice(key, start, stop)))

    # -- messages, scripts, replicas

    def c_publish(self, channel: bytes, message: bytes) -> int:
        """Hand the message to whoever wraps the model; it alone knows the subscribers."""
        self.published.append((channel, message))
        return 0

    def c_wait(self, replicas: bytes, _milliseconds: bytes) -> int:
        return integer(replicas)

    def c_eval(self, script: bytes, count: bytes, *rest: bytes) -> Any:
        if self.eval is None:
            raise RedisError("ERR this server runs no scripts")
        keys = integer(count)
        if keys < 0 or keys > len(rest):
            raise RedisError("ERR Number of keys can't be greater than number of args")
        self.frozen = self.clock()  # a script sees one instant
        try:
            return self.eval(script, list(rest[:keys]), list(rest[keys:]))
        finally:
            self.frozen = None

    def c_evalsha(self, digest: bytes, count: bytes, *rest: bytes) -> Any:
        script = self.scripts.get(digest.lower())
        if script is None:
            raise RedisError("NOSCRIPT No matching script. Please use EVAL.")
        return self.c_eval(script, count, *rest)

    def c_script(self, what: bytes, *args: bytes) -> Any:
        from hashlib import sha1  # here only: loading is rare

        if what.upper() == b"LOAD":
            digest = sha1(args[0], usedforsecurity=False).hexdigest().encode()
            self.scripts[digest] = args[0]
            return digest
        if what.upper() == b"EXISTS":
            return [int(digest in self.scripts) for digest in args]
        if what.upper() == b"FLUSH":
            self.scripts.clear()
            return OK
        raise RedisError(SYNTAX)


def _zadd_skips(flags: set[bytes], old: float | None, new: float) -> bool:
    if old is None:
        return b"XX" in flags
    return (
        b"NX" in flags
        or (b"GT" in flags and new <= old)
        or (b"LT" in flags and new >= old)
    )
