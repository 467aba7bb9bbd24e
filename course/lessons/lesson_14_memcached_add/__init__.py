"""Lesson 14: the cache needs its memory for something else."""

from collections.abc import Callable
from typing import Any

from course.plan import LOCK_DUTIES, TTL, Flaw, Plan, add_clients, lease_argument
from course.simulator.history import Text, Wrong, _
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY, Simulation
from course.simulator.world import World

EVICTION = FaultModel(frozenset({Act.EVICT}), targets=("memcached",), most_faults=1)


class MemcachedServer(RedisServer):
    """A memcached; `lock_key` is what memory pressure evicts.

    Its data are those of the simulated Redis, whose SET NX, GET and DEL do what these commands do.
    """

    title = "memcached"

    def __init__(self, world: World, *, lock_key: str) -> None:
        super().__init__(world, name="memcached", lock_key=lock_key)

    def suffer(self, act: Act, seconds: float) -> str:
        """Drop the lock's key to make room."""
        if act is not Act.EVICT:
            return super().suffer(act, seconds)
        self.model.execute([b"DEL", self.lock_key])
        return Text(_("needs room and evicts %s"), self.lock_key.decode())


class SimulatedMemcached:
    """One client of the server, with pymemcache's add, get, gets, cas and delete.

    As there, `noreply` is the default where the answer is only a yes or no: the client does
    not wait for it and takes it for a yes.
    """

    def __init__(self, server: MemcachedServer) -> None:
        self._server, self._model = server, server.model

    def add(self, key: str, value: bytes, expire: int = 0, noreply: bool = True) -> bool:
        words = ("add", key, value, expire)
        return self._tell(words, lambda: self._set(key, value, expire, b"NX") is not None, noreply)

    def get(self, key: str) -> bytes | None:
        return self._server.call(("get", key), lambda: self._get(key))

    def gets(self, key: str) -> tuple[bytes | None, int | None]:
        return self._server.call(("gets", key), lambda: (self._get(key), self._version(key)))

    def cas(
        self, key: str, value: bytes, version: int, expire: int = 0, noreply: bool = False
    ) -> bool | None:
        """Replace the value if its version is unchanged; return None if the key is gone."""

        def run() -> bool | None:
            now = self._version(key)
            if now == version and expire < 0:  # the end is in the past
                self._delete(key)
            elif now == version:
                self._set(key, value, expire)
            return None if now is None else now == version

        return self._server.call(("cas", key, value, version, expire), run)

    def delete(self, key: str, noreply: bool = True) -> bool:
        return self._tell(("delete", key), lambda: self._delete(key), noreply)

    def _tell(self, words: tuple[Any, ...], run: Callable[[], bool], noreply: bool) -> bool:
        def unread() -> str:
            run()
            return "not waited for"

        return bool(self._server.call(words, unread if noreply else run))

    def _get(self, key: str) -> bytes | None:
        value: bytes | None = self._model.find(key.encode())
        return value

    def _set(self, key: str, value: bytes, expire: int, *flags: bytes) -> Any:
        ends = [b"EX", b"%d" % expire] if expire else []
        return self._model.execute([b"SET", key.encode(), value, *flags, *ends])

    def _delete(self, key: str) -> bool:
        return bool(self._model.execute([b"DEL", key.encode()]))

    def _version(self, key: str) -> int | None:
        return None if self._get(key) is None else self._model.data.revision[key.encode()]


def clients(
    simulation: Simulation, kind: Callable[..., Any], *, ttl: int = TTL, **options: Any
) -> None:
    """Add two clients."""
    server = MemcachedServer(simulation.world, lock_key=KEY)

    def make() -> Any:
        return kind(SimulatedMemcached(server), KEY, **lease_argument(kind, ttl))

    add_clients(simulation, make, ttl=ttl, **options)


PLAN = Plan(
    flaws=(
        Flaw(
            "eviction", Wrong.TWO_HOLDERS, EVICTION, "table-row",
            breaks="before command 1 of B's acquire: evict memcached",
        ),
    ),
    checks=LOCK_DUTIES,
    clients=clients,
    solution="memcached-add",
)  # fmt: skip
