"""The keys, their values and their expiries."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from course.simulator.servers.redis.replies import WRONG_TYPE, RedisError


class Keyspace:
    """The keys, their values and their expiries, for the commands on each type of value.

    `clock` returns the server's time of day in microseconds.  `written` counts changes, and
    `revision` holds the count at a key's last change: it shows an observer that a key was replaced,
    even by an equal value.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.data: dict[bytes, Any] = {}
        self.ends: dict[bytes, int] = {}  # the key's expiry, in milliseconds of the server's clock
        self.revision: dict[bytes, int] = {}
        self.written = 0
        self.pushed: list[bytes] = []  # lists that grew: a blocked client may be served
        self.frozen: int | None = None  # the constant time inside a script

    def snapshot(self) -> tuple[dict[bytes, Any], dict[bytes, int]]:
        """Return a copy of all data, for a lagging replica."""
        return copy.deepcopy(self.data), dict(self.ends)

    def restore(self, snapshot: tuple[dict[bytes, Any], dict[bytes, int]]) -> None:
        """Replace all data: by a promoted replica's, or by none after a restart."""
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
        """Replace the value and remove its expiry, as SET does."""
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
        """Record a change in place, and remove a container that is empty."""
        self._touch(key)
        if not self.data[key]:
            del self.data[key]
            self.ends.pop(key, None)

    def _end_at(self, key: bytes, milliseconds: int) -> None:
        self.ends[key] = milliseconds
        self._touch(key)
        self.find(key)  # an expiry in the past deletes at once
