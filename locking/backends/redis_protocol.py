"""The vocabulary of the Redis locks: scripts and steps.

Every operation of a lock is a generator.  It yields calls of its transport and receives the
answers; `redis` and `redis_async` make the calls.  The half on the server is in `lua/`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from redis import exceptions
from redis.exceptions import AskError, MovedError, RedisError, TryAgainError

from locking.leases import checked
from locking.terms import LockError, LockUnavailable

T = TypeVar("T")

NO_ANSWER = (
    *(exceptions.ConnectionError, exceptions.TimeoutError),
    *(MovedError, AskError, TryAgainError),
)
"""The errors of a transport after which to send the command again: it is unknown whether the server
ran it, or it is the wrong node of a cluster."""

REFUSALS = (
    exceptions.ResponseError,
    *(exceptions.AuthenticationError, exceptions.AuthorizationError),
)
"""The errors with which a server answers; redis-py takes the last two for broken connections."""

WRONG_TYPE = re.compile("WRONGTYPE (.*?)(?: script: |$)")
"""The server's error, or a script's own, that a key holds something else, without the place."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script; the server knows it by its hash once it has been sent in full."""

    name: str
    source: str
    sha: str

    @staticmethod
    @cache
    def load(name: str) -> Script:
        """Read `lua/<name>.lua`; replace each line `-- @part` with `lua/<part>.lua`."""
        folder = Path(__file__).parent / "lua"
        source = re.sub(
            r"^-- @(\w+)$",
            lambda line: (folder / f"{line[1]}.lua").read_text(),
            (folder / f"{name}.lua").read_text(),
            flags=re.MULTILINE,
        )
        # EVALSHA is defined with SHA-1; the hash protects nothing here.
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        return Script(name, source, sha)


class Scripts(NamedTuple):
    """The scripts of a lock, by what they do."""

    acquire: Script
    release: Script
    renew: Script
    evict: Script
    owner: Script

    @classmethod
    def load(cls) -> Scripts:
        """Read the scripts."""
        return cls(*(Script.load(name) for name in cls._fields))


MUTEX = Scripts.load()
WAITERS, BELL = Script.load("waiters"), Script.load("bell")


class Grant(NamedTuple):
    """A granted lock: its fencing token, and the earliest time of the grant on our clock."""

    fence: int
    since: float


Step = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function to call and its arguments; what it returns is awaited in asyncio."""

Steps = Generator[Step, Any, T]


def unavailable(name: str, error: RedisError) -> NoReturn:
    """Raise `LockUnavailable` for an error of the server or the connection.

    Raises LockError for a key of the lock that holds something else.
    """
    if foreign := WRONG_TYPE.search(str(error)):
        raise LockError(
            f"a key of lock {name!r} holds something else ({foreign[1]}): delete it, or choose "
            "another name"
        ) from error
    how = "refused" if isinstance(error, REFUSALS) else "did not answer"
    raise LockUnavailable(f"the server of lock {name!r} {how}: {error}") from error


def keys_of(kind: str, name: str) -> tuple[str, str, str, str]:
    """Return the keys of a lock, under one hash tag, so that they are on one cluster node."""
    if not checked("the name", name, str, "text") or name[0] in "{}":
        # "{}" is not a hash tag, so the keys would be on different nodes.
        raise ValueError(f"the name must not be empty or start with a brace: {name!r}")
    lock = f"{kind}:{{{name}}}"
    return lock, f"{lock}:fence", f"{lock}:queue", f"{lock}:alive"


def owners_in(values: Iterable[bytes | str]) -> list[str]:
    """Return the owners in a list of "fence:token:owner"; a foreign value as it is."""
    return [text(value).split(":", 2)[-1] for value in values]


def ms(seconds: float) -> str:
    """Return seconds as the milliseconds that the scripts take, at least one."""
    return str(max(1, round(seconds * 1000)))


def text(value: bytes | str) -> str:
    """Return a reply as text, whether or not the client decodes replies; a foreign one escaped."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
