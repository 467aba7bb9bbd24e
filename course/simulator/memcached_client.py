"""A simulated memcached and a client with pymemcache's add, get, gets, cas and delete.

Its data are those of the simulated Redis, whose SET NX, GET and DEL do what these commands do.
"""

from typing import Any, TypeVar

from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act
from course.simulator.world import Stuck, World

Answer = TypeVar("Answer")


class MemcachedServer(RedisServer):
    """A server of the world; `lock_key` is what memory pressure evicts."""

    def __init__(self, world: World, *, lock_key: str) -> None:
        super().__init__(world, name="memcached", lock_key=lock_key)

    def suffer(self, act: Act, seconds: float) -> str:
        """Drop the lock's key to make room, or all keys: there is no replica."""
        if act is Act.EVICT:
            self.model.execute([b"DEL", self.lock_key])
            return f"needs room and evicts {self.lock_key.decode()}"
        if act is Act.FAIL_OVER:
            self.model.data.replace({})
            return "is replaced by an empty server"
        return f"is not affected ({act})"


class SimulatedMemcached:
    """One client of the server.

    As in pymemcache, `noreply` is the default where the answer is only a yes or no: the client does
    not wait for it and takes it for a yes.
    """

    def __init__(self, server: MemcachedServer) -> None:
        self._server = server

    def add(self, key: str, value: bytes, expire: int = 0, noreply: bool = True) -> bool:
        """Set the key if it does not exist; return whether it was set."""
        self._step(words := ("add", key, value, expire))
        added = self._run("SET", key, value, "NX", *(("EX", expire) if expire else ()))
        return self._answer(words, added is not None, noreply) or noreply

    def get(self, key: str) -> bytes | None:
        """Return the key's value."""
        self._step(words := ("get", key))
        value: bytes | None = self._run("GET", key)
        return self._answer(words, value)

    def gets(self, key: str) -> tuple[bytes | None, int | None]:
        """Return the key's value and its version."""
        self._step(words := ("gets", key))
        return self._answer(words, (self._run("GET", key), self._version(key)))

    def cas(
        self, key: str, value: bytes, version: int, expire: int = 0, noreply: bool = False
    ) -> bool | None:
        """Replace the value if its version is unchanged; return None if the key is gone."""
        self._step(words := ("cas", key, value, version, expire))
        now = self._version(key)
        if now == version and expire < 0:  # the end is in the past
            self._run("DEL", key)
        elif now == version:
            self._run("SET", key, value, *(("EX", expire) if expire else ()))
        return self._answer(words, None if now is None else now == version)

    def delete(self, key: str, noreply: bool = True) -> bool:
        """Delete the key; return whether it existed."""
        self._step(words := ("delete", key))
        return self._answer(words, bool(self._run("DEL", key)), noreply) or noreply

    def _run(self, *words: str | bytes | int) -> Any:
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return self._server.model.execute(encoded)

    def _version(self, key: str) -> int | None:
        model = self._server.model
        exists = model.find(key.encode()) is not None
        return model.data.revision[key.encode()] if exists else None

    def _step(self, about: tuple[Any, ...]) -> None:
        effect = self._server.world.step(about)
        if effect is not None:
            raise Stuck(f"the simulated memcached cannot {effect}")

    def _answer(self, words: tuple[Any, ...], answer: Answer, noreply: bool = False) -> Answer:
        server = self._server
        server.record(server.world.me(), words, "not waited for" if noreply else answer)
        return answer
