"""The Redis lock itself, for blocking and for asyncio clients: its settings and its operations.

The operations are steps (`redis_protocol`); only `redis` and `redis_async` do input and output.
"""

from __future__ import annotations

import logging
import random
from math import inf
from types import CodeType
from typing import Any, ClassVar, TypedDict

from locking.backends.redis_lease import TOKENS, RedisLeaseState, Remote
from locking.backends.redis_protocol import (
    MUTEX,
    WAITERS,
    Grant,
    Scripts,
    Step,
    Steps,
    keys_of,
    ms,
    owners_in,
    text,
)
from locking.backends.redis_status import note_own_lease
from locking.base import Handle, noted_on
from locking.leases import Held, lease_length, time_limit
from locking.terms import (
    SYSTEM_CLOCK,
    Capabilities,
    Clock,
    LockTimeout,
    LockUnavailable,
)

logger = logging.getLogger(__name__)

SLICE = 0.4
"""The longest wait in seconds before a waiter reports that it is alive, and passes over waiters
that have died: short enough that they cost those behind them about a second, long enough to cost
almost nothing."""

JITTER = 0.05
"""The longest delay in seconds between the expiry of the holder's lease and the check of the first
waiter, so that the server has expired the key; later waiters check later, in queue order."""

MAX_JITTER = 0.1
"""The longest of these delays in seconds, however many wait in front."""

RIDE_OUT = 30.0
"""Seconds for which a waiter without a time-out rides out a server that has stopped answering: a
fail-over or a restart takes less."""

RECONNECT_PAUSE = 0.2
"""The longest pause in seconds between the tries of such a waiter."""


class RedisLockSettings(TypedDict, total=False):
    """The settings of every kind of Redis lock; `RedisHandle` has the defaults."""

    lease: float
    timeout: float | None
    fair: bool
    renew: bool
    max_hold: float | None
    owner: str | None
    reentrant: bool
    clock: Clock


class RedisHandle(Handle):
    """A lock's name and settings (see `RedisLock`), and the steps of each of its operations.

    A blocking handle answers questions, an asyncio handle returns what to await.
    """

    scripts: Scripts = MUTEX
    remote_class: ClassVar[type[Remote]]
    lease_class: ClassVar[type[RedisLeaseState]]
    capabilities: ClassVar[Capabilities] = Capabilities(
        fence=True, fair=True, renewal=True, reentrant=True, counts_waiters=True
    )

    def __init__(
        self,
        client: Any,
        name: str,
        *,
        lease: float = 10.0,
        timeout: float | None = None,
        fair: bool = True,
        renew: bool = True,
        max_hold: float | None = None,
        owner: str | None = None,
        reentrant: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if reentrant and not owner:
            raise ValueError(f"{type(self).__name__} is acquired again by its owner: name one")
        self.name = name
        longest = inf if max_hold is None else lease_length(max_hold, inf, "max_hold")
        self.lease_seconds = min(lease_length(lease), longest)
        self.timeout = time_limit(timeout, True)
        self.max_hold = max_hold
        self.remote = self.remote_class(client, name, keys_of("lock", name), clock)
        self.remote.scripts = self.scripts
        self.remote.renewed = renew
        self._mode = "f" if fair else "u"
        self._owner = owner
        self._reentrant = reentrant
        self._request = ms(self.lease_seconds), self._mode
        self._held = Held()

    def new_holder(self) -> str:
        """Return the name of one acquisition: a unique token, and the owner for operators."""
        return f"{TOKENS.new()}:{self._owner or TOKENS.process}"

    def server_address(self) -> str:
        """See `Handle.server_address`."""
        return str(self.remote.transport.address())

    def owned(self) -> Any:
        """Return whether this thread or task holds the lock, according to the server."""
        return self.remote.perform(self._owning(self._caller()))

    def owner(self) -> Any:
        """Return the name of the holder; None if the lock is free."""
        return self.remote.read(self.scripts.owner, lambda held: next(iter(owners_in(held)), None))

    def waiters(self) -> Any:
        """Return how many live clients wait for the lock."""
        return self.remote.read(WAITERS, int)

    def force_release(self, reason: str) -> Any:
        """Revoke the lock and hand it to the next waiter; return whether it was held."""

        def log(evicted: list[bytes | str]) -> bool:
            for owner in owners_in(evicted):
                logger.warning("lock %r was revoked from %s: %s", self.name, owner, reason)
            return bool(evicted)

        return self.remote.read(self.scripts.evict, log)

    def _owning(self, caller: object) -> Steps[bool]:
        lease = self._held.own(caller)
        if lease is None or lease.remaining() <= 0:
            return False
        values = yield from self.remote.ask(self.scripts.owner)
        return any(text(value).partition(":")[2] == lease.holder for value in values)

    def _acquiring(
        self,
        caller: object,
        timeout: float | None,
        *,
        acquirer: object | None,
        asked_in: tuple[int, CodeType] | None = None,
    ) -> Steps[Any]:
        """Acquire the lock; return a new lease, or the handle's own if it is reentrant.

        The `acquirer` is the caller, or None if that is a task which does nothing else.  `asked_in`
        is the frame that acquires, as its id and code; None if its task alone matters.
        """
        if self._reentrant:
            held = self._held.live()
            if held is not None and held.count_reentry():
                return held
        lease = self.lease_class(self, self.new_holder(), asked_in)
        if self.remote.renewed:
            lease.keep(self.remote.clock.monotonic() + self.lease_seconds / 3)
        try:
            grant = yield from self.granting(lease.holder, caller, timeout)
        except BaseException as error:
            lease.drop()
            self._held.failed(caller)
            if not isinstance(error, LockUnavailable | LockTimeout | GeneratorExit):
                yield from self._leaving(lease.holder, error)
            raise
        lease.begin(grant, self.max_hold)
        self._held.add(acquirer, lease)
        return lease

    def granting(self, holder: str, caller: object, timeout: float | None) -> Steps[Grant]:
        """Ask and wait until the lock is granted; return a grant that has not expired.

        Raises `LockTimeout` after `timeout` seconds.
        """
        remote, scripts, lease = self.remote, self.scripts, self.lease_seconds
        monotonic = remote.clock.monotonic
        sent_at = monotonic()
        deadline = inf if timeout is None else sent_at + timeout
        give_up = deadline if timeout else None  # without it, the client's time-outs decide
        ride_out_until = -inf  # a server that has never answered is not waited for
        wake_list, note = "", None
        try:
            while True:
                last = sent_at >= deadline
                request = (holder, *self._request, "0" if last else "1")
                try:
                    answer = yield from remote.ask(scripts.acquire, *request, give_up=give_up)
                except LockUnavailable as error:
                    yield self._pause(min(deadline, ride_out_until), error)
                    sent_at = monotonic()
                    continue
                now = monotonic()
                ride_out_until = now + RIDE_OUT if timeout is None else inf
                if answer[0] and now < sent_at + lease:
                    return Grant(answer[0], sent_at)
                if last:
                    late = LockTimeout(f"lock {self.name!r}: not free within {timeout:g} s")
                    if answer[0]:  # the answer took longer than the lease
                        yield from self._leaving(holder, late)
                    raise late
                # After a late grant, another client may hold the lock.  If it is still ours, the
                # server restarts the lease when asked again.
                if not answer[0]:
                    if not wake_list:
                        wake_list = f"{remote.keys[0]}:wake:{holder.partition(':')[0]}"
                        note = note_own_lease(remote, caller, timeout)
                    grant = yield from self._waiting(wake_list, answer, sent_at, deadline, give_up)
                    if grant is not None:
                        return grant
                sent_at = monotonic()
        except LockTimeout as error:
            if note:
                error.add_note(note)
            raise
        finally:
            if wake_list:
                remote.transport.forget(wake_list)

    def _pause(self, until: float, error: LockUnavailable) -> Step:
        """Return a pause before the next try; raise the last one's error if no time is left."""
        left = until - self.remote.clock.monotonic()
        if left <= 0:
            raise error
        pause = min(left, random.uniform(RECONNECT_PAUSE / 2, RECONNECT_PAUSE))
        return self.remote.sleep, (pause,)

    def _waiting(
        self, wake_list: str, answer: Any, sent_at: float, deadline: float, give_up: float | None
    ) -> Steps[Grant | None]:
        """Wait for a message after the refusal `answer` to a request; return its valid grant."""
        monotonic = self.remote.clock.monotonic
        # Do not wait past the expiry of the holder's lease: the holder may have crashed.  The last
        # try happens at the deadline, after this wait.
        _, ends_in_ms, place, server_us, minted = answer
        jitter = min(max(place, 1) * random.uniform(JITTER / 2, JITTER), MAX_JITTER)
        until_expiry = max(ends_in_ms, 0) / 1000 + jitter
        seconds = max(0.001, min(SLICE, until_expiry, deadline - monotonic()))
        try:
            message = yield from self.remote.pop(wake_list, seconds, give_up)
        except LockUnavailable:
            if monotonic() >= deadline:
                raise  # the last try would wait for an answer once more
            return None
        if not message:
            return None
        now = monotonic()
        fence, granted_us = map(int, message.split(b":")[:2])
        # The lease began when the previous holder released.  To be safe, count the server's time
        # from its answer to that grant from when we sent our request, but not past now.
        since = min(now, sent_at + max(0, granted_us - server_us) / 1e6)
        # A message may have been read before the answer and be of a grant that was revoked.
        valid = fence > minted and now < since + self.lease_seconds
        return Grant(fence, since) if valid else None

    def _leaving(self, holder: str, error: BaseException) -> Steps[None]:
        """Leave the queue, or release a lock granted meanwhile, after an interruption."""
        entry = f"{self._mode}{ms(self.lease_seconds)}:{holder}"
        with noted_on(error):
            yield from self.remote.ask(self.scripts.release, holder, "0", entry)
