"""A simulated memcached and a client with pymemcache's add, get, gets, cas and delete."""

from typing import Any, TypeVar

from course.simulator.history import MICROSECONDS
from course.simulator.process import Server
from course.simulator.world import Stuck, World

Answer = TypeVar("Answer")


class MemcachedServer(Server):
    """A server of the world; `lock_key` is what memory pressure evicts."""

    def __init__(self, world: World, *, lock_key: str) -> None:
        super().__init__(world, "memcached")
        self.lock_key = lock_key
        self._values: dict[str, tuple[bytes, int, int]] = {}  # value, version, end
        self._version = 0

    def find(self, key: str) -> tuple[bytes, int, int] | None:
        """Return the key's value, version and end; None if it does not exist."""
        found = self._values.get(key)
        if found is not None and found[2] <= self.world.now:
            del self._values[key]
            return None
        return found

    def store(self, key: str, value: bytes, expire: float) -> None:
        """Set the key; 0 seconds mean forever, a negative number expires at once."""
        self._version += 1
        end = self.world.now + round(expire * MICROSECONDS) if expire else 1 << 62
        self._values[key] = (value, self._version, end)

    def drop(self, key: str) -> bool:
        """Delete the key; return whether it existed."""
        return self._values.pop(key, None) is not None

    def ends(self) -> list[int]:
        """Return when keys will expire, in virtual microseconds."""
        return [end for _, _, end in self._values.values()]

    def contents(self) -> list[tuple[Any, Any, int | None]]:
        """Return the keys with their values and expiries."""
        return [
            (key, value, end)
            for key, (value, _, end) in sorted(self._values.items())
            if end > self.world.now
        ]

    def fail_over(self) -> str:
        """Replace the server by an empty one: there is no replica."""
        self._values.clear()
        return "is replaced by an empty server"

    def evict(self) -> str:
        """Drop the lock's key to make room."""
        self.drop(self.lock_key)
        return f"needs room and evicts {self.lock_key}"


class SimulatedMemcached:
    """One client of the server.

    As in pymemcache, `noreply` is the default where the answer is only a yes or no: the client does
    not wait for it and takes it for a yes.
    """

    def __init__(self, server: MemcachedServer) -> None:
        self._server = server

    def add(self, key: str, value: bytes, expire: float = 0, noreply: bool = True) -> bool:
        """Set the key if it does not exist; return whether it was set."""
        self._step(("add", key, value, expire))
        added = self._server.find(key) is None
        if added:
            self._server.store(key, value, expire)
        return self._answer(("add", key, value, expire), added, noreply) or noreply

    def get(self, key: str) -> bytes | None:
        """Return the key's value."""
        self._step(("get", key))
        found = self._server.find(key)
        return self._answer(("get", key), found and found[0])

    def gets(self, key: str) -> tuple[bytes | None, int | None]:
        """Return the key's value and its version."""
        self._step(("gets", key))
        found = self._server.find(key)
        return self._answer(("gets", key), (found[0], found[1]) if found else (None, None))

    def cas(
        self, key: str, value: bytes, version: int, expire: float = 0, noreply: bool = False
    ) -> bool | None:
        """Replace the value if its version is unchanged; return None if the key is gone."""
        self._step(("cas", key, value, version, expire))
        found = self._server.find(key)
        same = found[1] == version if found else None
        if same:
            self._server.store(key, value, expire)
        return self._answer(("cas", key, value, version, expire), same)

    def delete(self, key: str, noreply: bool = True) -> bool:
        """Delete the key; return whether it existed."""
        self._step(("delete", key))
        return self._answer(("delete", key), self._server.drop(key), noreply) or noreply

    def _step(self, about: tuple[Any, ...]) -> None:
        effect = self._server.world.step(about)
        if effect is not None:
            raise Stuck(f"the simulated memcached cannot {effect}")

    def _answer(self, words: tuple[Any, ...], answer: Answer, noreply: bool = False) -> Answer:
        server = self._server
        server.record(server.world.me(), words, "not waited for" if noreply else answer)
        return answer
