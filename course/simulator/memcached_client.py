"""A simulated memcached and a client with pymemcache's add, get, gets, cas and delete.

Its data are those of the simulated Redis, whose SET NX, GET and DEL do what these commands do.
"""

from collections.abc import Callable
from typing import Any

from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act
from course.simulator.world import World


class MemcachedServer(RedisServer):
    """A server of the world; `lock_key` is what memory pressure evicts."""

    title = "memcached"

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
        words = ("add", key, value, expire)
        return self._call(words, lambda: self._set(key, value, expire, "NX") is not None, noreply)

    def get(self, key: str) -> bytes | None:
        return self._call(("get", key), lambda: self._run("GET", key))

    def gets(self, key: str) -> tuple[bytes | None, int | None]:
        return self._call(("gets", key), lambda: (self._run("GET", key), self._version(key)))

    def cas(
        self, key: str, value: bytes, version: int, expire: int = 0, noreply: bool = False
    ) -> bool | None:
        """Replace the value if its version is unchanged; return None if the key is gone."""

        def run() -> bool | None:
            now = self._version(key)
            if now == version and expire < 0:  # the end is in the past
                self._run("DEL", key)
            elif now == version:
                self._set(key, value, expire)
            return None if now is None else now == version

        return self._call(("cas", key, value, version, expire), run)

    def delete(self, key: str, noreply: bool = True) -> bool:
        return self._call(("delete", key), lambda: bool(self._run("DEL", key)), noreply)

    def _call(self, words: tuple[Any, ...], run: Callable[[], Any], noreply: bool = False) -> Any:
        def unread() -> str:
            run()
            return "not waited for"

        return bool(self._server.call(words, unread)) if noreply else self._server.call(words, run)

    def _set(self, key: str, value: bytes, expire: int, *flags: str) -> Any:
        return self._run("SET", key, value, *flags, *(("EX", expire) if expire else ()))

    def _run(self, *words: str | bytes | int) -> Any:
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return self._server.model.execute(encoded)

    def _version(self, key: str) -> int | None:
        model = self._server.model
        exists = model.find(key.encode()) is not None
        return model.data.revision[key.encode()] if exists else None
