"""The whole server: all commands, and the scripts that call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha1
from typing import Any

from course.simulator.servers.redis.hashes import HashCommands
from course.simulator.servers.redis.keys import KeyCommands
from course.simulator.servers.redis.lists import ListCommands
from course.simulator.servers.redis.replies import OK, SYNTAX, RedisError, integer
from course.simulator.servers.redis.sorted_sets import SortedSetCommands
from course.simulator.servers.redis.strings import StringCommands


class RedisModel(StringCommands, KeyCommands, ListCommands, HashCommands, SortedSetCommands):
    """A server.  Its caller delivers what is `published` and runs its scripts (`eval`)."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self.published: list[tuple[bytes, bytes]] = []
        self.scripts: dict[bytes, bytes] = {}
        self.eval: Callable[[bytes, list[bytes], list[bytes]], Any] | None = None

    def execute(self, name: bytes, args: Iterable[bytes]) -> Any:
        """Run one command and give its reply; `RedisError` for an error reply."""
        method = COMMANDS.get(name) or COMMANDS.get(name.upper())
        if method is None:
            raise RedisError(f"ERR unknown command '{name.decode()}'")
        try:
            return method(self, *args)
        except TypeError as problem:
            if "positional argument" not in str(problem):
                raise
            raise RedisError(
                f"ERR wrong number of arguments for '{name.decode().lower()}' command"
            ) from problem

    def _c_publish(self, channel: bytes, message: bytes) -> int:
        """Hand the message to the caller, which knows the subscribers."""
        self.published.append((channel, message))
        return 0

    def _c_wait(self, replicas: bytes, _milliseconds: bytes) -> int:
        return integer(replicas)

    def _c_eval(self, script: bytes, count: bytes, *rest: bytes) -> Any:
        if self.eval is None:
            raise RedisError("ERR this server runs no scripts")
        keys = integer(count)
        if keys < 0 or keys > len(rest):
            raise RedisError("ERR Number of keys can't be greater than number of args")
        self.frozen = self.clock()  # time is constant in a script
        try:
            return self.eval(script, list(rest[:keys]), list(rest[keys:]))
        finally:
            self.frozen = None

    def _c_evalsha(self, digest: bytes, count: bytes, *rest: bytes) -> Any:
        script = self.scripts.get(digest.lower())
        if script is None:
            raise RedisError("NOSCRIPT No matching script. Please use EVAL.")
        return self._c_eval(script, count, *rest)

    def _c_script(self, what: bytes, *args: bytes) -> Any:
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


COMMANDS: dict[bytes, Callable[..., Any]] = {
    name[3:].upper().encode(): getattr(RedisModel, name)
    for name in dir(RedisModel)
    if name.startswith("_c_")
}
