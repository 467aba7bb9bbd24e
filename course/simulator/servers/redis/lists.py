"""Commands on lists: RPUSH, LPOP, BLPOP and related ones."""

from __future__ import annotations

from typing import Any

from course.simulator.servers.redis.keyspace import Keyspace
from course.simulator.servers.redis.replies import (
    OK,
    RedisError,
    Status,
    integer,
    score,
    span,
)


class ListCommands(Keyspace):
    """Commands on lists: RPUSH, LPOP, BLPOP and related ones."""

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

    def _c_lpush(self, key: bytes, *values: bytes) -> int:
        return self._push(key, values, left=True)

    def _c_rpush(self, key: bytes, *values: bytes) -> int:
        return self._push(key, values, left=False)

    def _pop(self, key: bytes, index: int, count: bytes | None = None) -> Any:
        items = self._typed(key, list)
        if not items:
            return None
        taken = [items.pop(index) for _ in range(min(len(items), integer(count or b"1")))]
        self._changed(key)
        return taken[0] if count is None else taken

    def _c_lpop(self, key: bytes, count: bytes | None = None) -> Any:
        return self._pop(key, 0, count)

    def _c_rpop(self, key: bytes, count: bytes | None = None) -> Any:
        return self._pop(key, -1, count)

    def _c_blpop(self, *keys_and_timeout: bytes) -> list[bytes] | None:
        """Return the first element of the first list that has one; the caller may block."""
        score(keys_and_timeout[-1])
        for key in keys_and_timeout[:-1]:
            value = self._pop(key, 0)
            if value is not None:
                return [key, value]
        return None

    def _c_llen(self, key: bytes) -> int:
        return len(self._typed(key, list) or ())

    def _c_lindex(self, key: bytes, index: bytes) -> bytes | None:
        items = self._typed(key, list) or []
        place = integer(index)
        return items[place] if -len(items) <= place < len(items) else None

    def _c_lrange(self, key: bytes, start: bytes, stop: bytes) -> list[bytes]:
        return span(self._typed(key, list) or [], integer(start), integer(stop))

    def _c_ltrim(self, key: bytes, start: bytes, stop: bytes) -> Status:
        items = self._typed(key, list)
        if items is not None:
            items[:] = span(items, integer(start), integer(stop))
            self._changed(key)
        return OK

    def _c_lrem(self, key: bytes, count: bytes, value: bytes) -> int:
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

    def _c_lpos(self, key: bytes, value: bytes) -> int | None:
        items = self._typed(key, list) or []
        return items.index(value) if value in items else None
