"""The lease of a Redis lock, for blocking and for asyncio clients: its state and its operations.

It talks to a `Remote`, the lock on its server, which it shares with the handle.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
import weakref
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from math import inf
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

from redis.exceptions import NoScriptError, RedisError

from locking.backends.redis_protocol import (
    MUTEX,
    NO_ANSWER,
    Grant,
    Script,
    Steps,
    ms,
    unavailable,
)
from locking.leases import MIN_LEASE, LeaseState, lease_length, leave_home, nobody
from locking.renewal import RENEWER, Renewer
from locking.terms import SYSTEM_CLOCK, Clock, LockError

if TYPE_CHECKING:
    from locking.backends.redis_core import RedisHandle

ANSWER_GRACE = 0.25
"""Seconds to wait for an answer past the deadline of an acquire: the last try is sent *at* the
deadline, and a healthy server across a network answers within this."""

LEASES: dict[str, weakref.ref[RedisLeaseState]] = {}
"""The leases that this process holds, by holder."""


class Tokens:
    """A source of tokens that are unique across all processes."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        # A random prefix per process plus a counter costs a tenth of fresh random bytes per token.
        self._start = os.urandom(9).hex()
        self._count: Callable[[], int] = itertools.count().__next__
        self.process = f"{socket.gethostname()}/{os.getpid()}"

    def new(self) -> str:
        """Return a new token; it contains no colon."""
        return f"{self._start}{self._count():x}"


TOKENS = Tokens()


class Remote:
    """A lock on its server: what a handle and its leases share.

    A lease refers to this and not to its handle, so that both end when the program drops them.
    """

    __slots__ = ("clock", "keys", "name", "renewed", "renewer", "scripts", "transport")

    transport_of: ClassVar[Callable[[Any], Any]]
    perform: Callable[[Steps[Any]], Any]
    """Take the steps; return their result, or what to await for it."""

    def __init__(
        self, client: Any, name: str, keys: tuple[str, ...], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.name = name
        self.keys = keys
        self.transport = type(self).transport_of(client)
        self.clock = clock
        self.renewer: Renewer = RENEWER
        self.scripts, self.renewed = MUTEX, False

    def sleep(self, seconds: float) -> Any:
        """Sleep, or return what to await for it."""
        return self.clock.sleep(seconds)

    def ask(
        self,
        script: Script,
        *args: str,
        give_up: float | None = None,
        tries: int = 2,
    ) -> Steps[Any]:
        """Run one of the lock's scripts; repeat it once if there was no answer.

        A repetition is harmless: each script recognises its earlier execution by the token.
        Waits for no answer past `give_up` (monotonic).  Raises `LockUnavailable`.
        """
        tail = (str(len(self.keys)), *self.keys, *args)
        words = ("EVALSHA", script.sha, *tail)
        while True:
            patience = give_up and self._patience(give_up)
            try:
                return (yield self.transport.run, (words, patience, script.name))
            except NoScriptError as unknown:
                # The error and a frame of redis-py refer to each other, and so to our caller's
                # lease.
                unknown.__traceback__ = None
                words = ("EVAL", script.source, *tail)
            except NO_ANSWER as error:
                tries -= 1
                yield self.transport.search, (patience,)
                if not tries or not self._may_repeat(give_up):
                    unavailable(self.name, error)
            except RedisError as error:
                unavailable(self.name, error)

    def read(self, script: Script, read: Callable[[Any], Any], *args: str, tries: int = 2) -> Any:
        """Run a script; return what `read` makes of the answer, or what to await for that."""

        def steps() -> Steps[Any]:
            return read((yield from self.ask(script, *args, tries=tries)))

        return self.perform(steps())

    def pop(self, wake_list: str, seconds: float, give_up: float | None) -> Steps[bytes | None]:
        """Wait for a message; None also if the connection is lost, and perhaps a message with it.

        The next try finds out.  Raises `LockUnavailable`.
        """
        patience = give_up and self._patience(give_up, seconds)
        popped: bytes | None = None
        try:
            popped = yield self.transport.pop, (wake_list, seconds, patience)
        except NO_ANSWER as error:
            yield self.transport.search, (patience,)
            if not self._may_repeat(give_up):
                unavailable(self.name, error)
        except RedisError as error:
            unavailable(self.name, error)
        return popped

    def _patience(self, give_up: float, blocked: float = 0.0) -> float:
        """Return how long to wait for an answer; without a limit, it is the client's time-out."""
        return max(ANSWER_GRACE, give_up - self.clock.monotonic() - blocked)

    def _may_repeat(self, give_up: float | None) -> bool:
        return give_up is None or self.clock.monotonic() < give_up


class RedisLeaseState(LeaseState):
    """The state of one acquisition's lease; `holder` is its name on the server."""

    __slots__ = (
        "_count", "_extensions", "_max_until", "_process", "_release_sent", "_remote", "_seconds",
        "asked_in", "holder",
    )  # fmt: skip

    def __init__(
        self, lock: RedisHandle, holder: str, asked_in: tuple[int, CodeType] | None = None
    ) -> None:
        super().__init__(lock.name, clock=lock.remote.clock)
        self._remote: Any = lock.remote
        self.holder = holder
        self.asked_in = asked_in
        # Whether the server may have executed a release whose answer we did not get.
        self._release_sent = False
        self._seconds = lock.lease_seconds
        self._extensions = 0  # how often an `extend` began or ended: odd while one is under way
        self._process = TOKENS.process
        self._count = 1
        self._max_until = inf

    def __del__(self) -> None:
        if not self._released:
            if not sys.is_finalizing():
                LEASES.pop(self.holder, None)
            super().__del__()

    def begin(self, grant: Grant, max_hold: float | None) -> None:
        """Start the lease after its grant."""
        self.token = grant.fence
        self._deadline = grant.since + self._seconds
        if max_hold is not None:
            self._max_until = self.clock.monotonic() + max_hold
        LEASES[self.holder] = weakref.ref(self)

    def _end(self) -> None:
        LEASES.pop(self.holder, None)
        super()._end()

    def count_reentry(self) -> bool:
        """Count one more acquire, on the client only; return False if the lease has ended."""
        with self._guard:
            if self._releasing or self._released or self._lost_reason:
                return False
            self._count += 1
        return True

    def release(self) -> Any:
        """Release the lock, at the last of as many releases as there were acquires.

        Raises as `Lease.release`.  A release that is cancelled goes on in the background.
        """
        return self._remote.perform(self.releasing())

    def extend(self, seconds: float) -> Any:
        """Set the lease to expire `seconds` from now, and to be renewed for as long; as `Lease`."""
        return self._remote.perform(self.extending(seconds))

    # -- renewal, which a subclass begins and stops

    keep: Callable[[float], None]
    drop: Callable[[], None]
    _acquirer_ended: Callable[[], bool]

    def renewing(self) -> Steps[tuple[bool, float]]:
        """Extend the lease; return as `Renewable.renew`.

        Once the thread or task has ended that acquired it, the handle does not keep the lease any
        more: it lasts only if somebody else has it.
        """
        now, extensions = self.clock.monotonic(), self._extensions
        if self.token is None:
            return True, now + self._seconds / 3  # still waiting in the queue
        if self._is_lost() or self._released:
            return True, inf
        if self.acquirer is not nobody and self._acquirer_ended():
            leave_home(self)
        seconds = min(self._seconds, self._max_until - now)
        if seconds <= 0:
            return True, self._deadline  # to record the loss on time
        try:
            answer = yield from self._remote.ask(
                self._remote.scripts.renew, self.holder, ms(seconds), "0"
            )
        except LockError:
            return False, min(now + self._seconds / 9, self._deadline)
        if answer == 0:
            # Our own release may have overtaken the renewal; then the lease is not lost.
            if not self._releasing:
                self.mark_lost("the server no longer knows it")
            return True, inf
        # The server may set a shorter expiry after this renewal; `extend` knows that one.
        if extensions == self._extensions and extensions % 2 == 0:
            self._deadline = max(self._deadline, now + seconds)
        return True, now + self._seconds / 3

    # -- extension

    def extending(self, seconds: float) -> Steps[None]:
        """See `extend`."""
        self.check()
        remote, now = self._remote, self.clock.monotonic()
        seconds = min(lease_length(seconds), max(self._max_until - now, MIN_LEASE))
        deadline = now + seconds
        self._deadline = min(self._deadline, deadline)  # the server may shorten it before we know
        self._extensions += 1
        try:
            answer = yield from remote.ask(remote.scripts.renew, self.holder, ms(seconds), "1")
            self._note_extension(answer != 0, deadline)
        finally:
            self._extensions += 1
        self._seconds = seconds
        if remote.renewed:
            self.keep(self.clock.monotonic() + seconds / 3)

    # -- release

    def releasing(self) -> Steps[None]:
        """Release the lock; a release of a cancelled task is sent all the same."""
        with self._guard:
            if self._released:
                return
            if self._count > 1:
                self._count -= 1
                return
            self._releasing = True  # from here on nobody enters again
        self._is_lost()  # records an expiry before the server is asked
        try:
            held = yield from self._sending_release()
        except CancelledError:
            with suppress(LockError):
                held = yield from self._sending_release()
                if not self._released:
                    self._note_release(held)
            raise
        self._note_release(held)

    def _sending_release(self) -> Steps[bool]:
        """Release on the server; return whether we held the lock until then."""
        if self._process is not TOKENS.process:
            return False
        self.drop()
        ask, release = self._remote.ask, self._remote.scripts.release
        args = self.holder, str(self.token), ""
        repeated, self._release_sent = self._release_sent, True
        if not repeated:
            try:
                answer: int = yield from ask(release, *args, tries=1)
                return answer == 1
            except LockError as error:
                if not isinstance(error.__cause__, NO_ANSWER):
                    self._release_sent = False  # the server has refused it
                    raise
        # 2: an earlier try may have released it, and its answer was lost or interrupted.
        answer = yield from ask(release, *args)
        return answer in (1, 2)

    def _is_lost(self) -> bool:
        if self._process is not TOKENS.process:
            self.mark_lost("it belongs to the parent of this forked process")
        return super()._is_lost()
