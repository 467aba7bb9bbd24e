"""Where the values are, and when they end."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lab.locks.simulator.servers.redis.replies import WRONG_TYPE, RedisError


class Keyspace:
    """The keys, their values and their ends; the commands on each type of value build on it.

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
        self.frozen: int | None = None  # inside a script, time stands still

    def snapshot(self) -> tuple[dict[bytes, Any], dict[bytes, int]]:
        """Return a copy of all data, for a replica that lags behind."""
        return copy.deepcopy(self.data), dict(self.ends)

    def restore(self, snapshot: tuple[dict[bytes, Any], dict[bytes, int]]) -> None:
        """Become the server that has this data: a promoted replica, or one restarted empty."""
        for key in set(self.data) | set(snapshot[0]):
            self._touch(key)
        self.data, self.ends = snapshot

    def microseconds(self) -> int:
        """Return the server's time of day; it is constant within a script."""
        return self.clock() if self.frozen is None else self.frozen

    def find(self, key: bytes) -> Any:
        """Return the key's value, None if there is none or it has expired."""
        end = self.ends.get(key)
        if end is not None and end <= self.microseconds() // 1000:
            self._remove(key)
            return None
        return self.data.get(key)

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
