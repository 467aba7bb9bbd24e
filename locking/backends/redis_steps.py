"""The steps that the Redis locks consist of, and a lock's commands on its server.

Every operation is a generator.  It yields what to send (`Ask`), to wait for (`Pop`) or how long to
sleep (`Pause`), and receives the answers; `redis` and `redis_async` execute the steps.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from redis.exceptions import RedisError

from locking.backends.redis_protocol import Pause, Script
from locking.backends.redis_transport import NO_ANSWER, Wait
from locking.base import Clock, LockError, LockUnavailable

if TYPE_CHECKING:
    from locking.backends.redis_core import RedisHandle

ANSWER_GRACE = 0.25
"""Seconds to wait for an answer past the deadline of an acquire: the last try is sent *at* the
deadline, and a healthy server across a network answers within this."""


T = TypeVar("T")


class Ask(NamedTuple):
    """A step: run a script of the lock; with `wait`, also WAIT for replicas."""

    script: Script
    args: tuple[str, ...]
    wait: Wait = None
    patience: float | None = None


class Pop(NamedTuple):
    """A step: wait for a message in a wake-up list."""

    wake_list: str
    seconds: float
    patience: float | None


Steps = Generator["Ask | Pop | Pause", Any, T]


class Remote:
    """A lock on its server: what a handle and its leases share.

    A lease refers to this and not to its handle, so that both end when the program drops them.
    """

    __slots__ = ("clock", "hooks", "keys", "name", "renewed", "scripts", "several", "transport")

    def __init__(self, handle: RedisHandle, transport: Any, clock: Clock) -> None:
        self.name, self.hooks, self.keys = handle.name, handle.hooks, handle.keys
        self.scripts, self.renewed, self.several = handle.scripts, handle.renewed, handle.several
        self.transport = transport
        self.clock = clock

    def forget(self, wake_list: str) -> None:
        """Keep no message for a wake-up list any more."""

    def ask(self, script: Script, *args: str, give_up: float | None = None) -> Steps[Any]:
        """Run one of the lock's scripts; repeat it once if there was no answer.

        A repetition is harmless: each script recognises its earlier execution by the token.
        Waits for no answer past `give_up` (monotonic).  Raises `LockUnavailable`.
        """
        try:
            try:
                return (yield Ask(script, args, None, self._patience(give_up)))
            except NO_ANSWER:
                if not self._may_repeat(give_up):
                    raise
                return (yield Ask(script, args, None, self._patience(give_up)))
        except RedisError as error:
            unavailable(self.name, error)

    def pop(self, wake_list: str, seconds: float, give_up: float | None) -> Steps[bytes | None]:
        """Wait for a message; None also if the connection is lost, and perhaps a message with it.

        The next acquire step finds out.  Raises `LockUnavailable`.
        """
        try:
            popped: bytes | None
            popped = yield Pop(wake_list, seconds, self._patience(give_up, seconds))
        except RedisError as error:
            if not (isinstance(error, NO_ANSWER) and self._may_repeat(give_up)):
                unavailable(self.name, error)
            return None
        return popped

    def _patience(self, give_up: float | None, blocked: float = 0.0) -> float | None:
        """Return how long to wait for an answer; None: as long as the client's time-out."""
        if give_up is None:
            return None
        return max(ANSWER_GRACE, give_up - self.clock.monotonic() - blocked)

    def _may_repeat(self, give_up: float | None) -> bool:
        """Return whether there is time to send a command again that got no answer."""
        return give_up is None or self.clock.monotonic() < give_up


def owners_in(values: Iterable[bytes | str]) -> list[str]:
    """Return the owners in a list of "fence:token:owner"; a foreign value as it is."""
    return [text(value).split(":", 2)[-1] for value in values]


def unavailable(name: str, error: RedisError) -> NoReturn:
    """Raise `LockUnavailable` for an error of the server or the connection.

    Raises LockError for a semaphore with another number of permits, and for a key of the lock that
    holds something else.
    """
    if str(error).startswith("PERMITS"):
        raise LockError(f"semaphore {name!r}: {error}") from error
    if "WRONGTYPE" in str(error):
        raise LockError(f"a key of lock {name!r} holds something else: {error}") from error
    raise LockUnavailable(f"the server of lock {name!r} did not answer: {error}") from error


def ms(seconds: float) -> str:
    """Return seconds as the milliseconds that the scripts take, at least one."""
    return str(max(1, round(seconds * 1000)))


def text(value: bytes | str) -> str:
    """Return a reply as text, whether or not the client decodes replies."""
    return value.decode() if isinstance(value, bytes) else value
