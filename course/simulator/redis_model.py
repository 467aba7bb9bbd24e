"""The simulated Redis server's data and commands: those of `fakeredis`, in virtual time.

`fakeredis` has the commands and the Lua.  Of its own are here only what a simulation needs besides:
a clock, the changes that a monitor watches, the lists and channels that blocked clients wait for,
and a Lua state that all servers of a process share, because one per server and a compilation per
call take five times as long.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import redis
from fakeredis import FakeServer
from fakeredis._core import CommandItem, Database
from fakeredis._helpers import SimpleError
from fakeredis._socket import FakeSocket
from fakeredis.commands_mixins.scripting_mixin import _convert_redis_arg
from fakeredis.model import Hash, ZSet

MICROSECONDS = 1_000_000


class Keyspace(Database):
    """The keys of a server; `touched` counts changes, `revision` has the count at a key's last."""

    def __init__(self) -> None:
        super().__init__(None)
        self.touched = 0
        self.revision: dict[bytes, int] = {}
        self.changed: set[bytes] = set()

    def notify_watch(self, key: bytes) -> None:
        """Note a change."""
        self.touched += 1
        self.revision[key] = self.touched
        self.changed.add(key)

    def expired(self, item: Any) -> bool:
        """Return whether an item has ended: in whole milliseconds, as on the server."""
        return item.expireat is not None and round(item.expireat * 1000) <= round(self.time * 1000)

    def _remove_expired(self) -> None:
        for key in list(self._dict):
            self.get(key)

    def __getitem__(self, key: bytes) -> Any:
        item = self._dict[key]
        if self.expired(item):
            del self._dict[key]
            self.notify_watch(key)
            raise KeyError(key)
        return item

    def everything(self) -> dict[bytes, Any]:
        """Return all items, also those that have expired unseen."""
        return self._dict

    def replace(self, items: dict[bytes, Any]) -> None:
        """Replace all items."""
        for key in self._dict.keys() | items.keys():
            self.notify_watch(key)
        self._dict = items


class RedisModel(FakeSocket):
    """A server's data, and its one connection.

    `clock` returns the server's time of day in microseconds.  The caller delivers what is
    `published`, and lets a client wait whose blocking pop answers None.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.data = Keyspace()
        self.published: list[tuple[bytes, bytes]] = []
        server = FakeServer()
        server.dbs[0] = self.data
        super().__init__(server, 0, client_class=redis.Redis)

    def execute(self, words: list[bytes]) -> Any:
        """Run one command and return its raw reply; `ResponseError` for an error reply."""
        name = words[0].decode().lower()
        if name in ("script", "object", "config", "client"):
            name, words = f"{name} {words[1].decode().lower()}", words[1:]
        self.data.time = self.clock() // 1000 / 1000  # constant within a script
        try:
            function, signature = self._name_to_func(name)
            reply = self._run_command(function, signature, words[1:], False)
        except SimpleError as problem:
            reply = problem
        if isinstance(reply, SimpleError):
            raise self._decode_error(reply)
        return self._decode_result(reply)

    # -- for the monitor

    def find(self, key: bytes) -> Any:
        """Return the key's value, None if there is none or it has expired."""
        self.data.time = self.clock() // 1000 / 1000
        item = self.data.get(key)
        return None if item is None else plain(item.value)

    def end(self, key: bytes) -> int | None:
        """Return when a key expires, in milliseconds of the server's clock; None: never."""
        item = self.data.everything().get(key)
        return None if item is None or item.expireat is None else round(item.expireat * 1000)

    def names(self) -> list[bytes]:
        """Return the names of all keys, also of those that have expired unseen."""
        return sorted(self.data.everything())

    def snapshot(self) -> dict[bytes, Any]:
        """Return a copy of all data, for a lagging replica."""
        return copy.deepcopy(self.data.everything())

    # -- what differs from fakeredis

    def _blocking(
        self,
        timeout: float | None,
        func: Callable[[bool], Any],
        shape: Callable[[Any], Any] | None = None,
    ) -> Any:
        return func(True)

    def time(self) -> list[bytes]:
        """Return the time of day."""
        seconds, rest = divmod(self.clock(), MICROSECONDS)
        return [b"%d" % seconds, b"%d" % rest]

    def publish(self, channel: bytes, message: bytes) -> int:
        """Hand the message to the caller, which knows the subscribers."""
        self.published.append((channel, message))
        return 0

    def setex(self, key: CommandItem, seconds: int, value: bytes) -> Any:
        """Set a value and its expiry, which fakeredis rounds to seconds."""
        return self.set_(key, value, b"EX", b"%d" % seconds)

    def psetex(self, key: CommandItem, ms: int, value: bytes) -> Any:
        """Set a value and its expiry."""
        return self.set_(key, value, b"PX", b"%d" % ms)

    def eval(self, script: bytes, numkeys: int, *words: bytes) -> Any:
        """Run a script, compiled once."""
        if not 0 <= numkeys <= len(words):
            raise SimpleError("ERR Number of keys can't be greater than number of args")
        shared: Any = _shared()
        lua = self._get_server_runtime(shared)
        shared._lua_current_socket[0] = self
        shared._lua_set_keys_argv(lua.table_from(words[:numkeys]), lua.table_from(words[numkeys:]))
        self._script_resp = 2
        try:
            return self._convert_lua_result(_compiled(script)(), nested=False)
        except SimpleError:
            raise
        except Exception as problem:
            if type(problem).__name__ not in ("LuaError", "LuaSyntaxError"):
                raise
            raise SimpleError(f"ERR {problem}") from None
        finally:
            self._script_resp = None

    def _lua_redis_call(self, lua: Any, names: Any, name: bytes, *words: Any) -> Any:
        function, signature = self._name_to_func(name.decode().lower())
        arguments = [_convert_redis_arg(word) for word in words]
        return self._convert_redis_result(
            lua, self._run_command(function, signature, arguments, True)
        )


@cache
def _shared() -> FakeServer:
    """Return the server whose Lua state all models use."""
    return FakeServer()


@cache
def _compiled(script: bytes) -> Any:
    shared: Any = _shared()
    return shared._lua_runtime.execute(b"return function() " + script + b"\nend")


def plain(value: Any) -> Any:
    """Return a value in Python's own types: a sorted set as its scores by member."""
    if isinstance(value, ZSet):
        return dict(value.items())
    return value.getall() if isinstance(value, Hash) else value
