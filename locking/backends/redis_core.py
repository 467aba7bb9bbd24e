"""What the blocking and the asyncio Redis locks share, without input or output.

The settings, keys and names of a lock, and the state of a lease: what to ask the server, and what
its answers mean. The locks and leases themselves only send and receive.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, ClassVar, NoReturn, TypedDict

from redis.exceptions import RedisError

from locking.backends.redis_protocol import (
    MUTEX,
    TOKENS,
    AcquireSteps,
    Grant,
    Keys,
    Scripts,
    acquire_steps,
)
from locking.backends.redis_transport import NO_ANSWER
from locking.base import (
    NO_HOOKS,
    SYSTEM_CLOCK,
    Capabilities,
    Clock,
    Held,
    Hooks,
    LeaseState,
    LockError,
    LockUnavailable,
)
from locking.renewal import Renewal
from locking.terms import MIN_LEASE, lease_length

logger = logging.getLogger(__name__)

ANSWER_GRACE = 0.25
"""Seconds to wait for an answer past the deadline of an acquire: the last try is sent *at* the
deadline, and a healthy server across a network answers within this."""


class RedisLockSettings(TypedDict, total=False):
    """The settings of every kind of Redis lock; `RedisHandle` has the defaults."""

    lease: float
    fair: bool
    renew: bool
    max_hold: float | None
    owner: str | None
    hooks: Hooks
    clock: Clock


class Remote:
    """A lock on its server: what a handle and its leases share.

    A lease refers to this and not to its handle, so that both end when the program drops them.
    """

    __slots__ = ("clock", "hooks", "keys", "name", "reentrant", "renewed", "scripts", "transport")

    def __init__(self, handle: RedisHandle, transport: Any, clock: Clock) -> None:
        self.name, self.hooks, self.keys = handle.name, handle.hooks, handle.keys
        self.scripts, self.renewed = handle.scripts, handle.renewed
        self.reentrant = handle.capabilities.reentrant
        self.transport = transport
        self.clock = clock

    def patience(self, give_up: float | None, blocked: float = 0.0) -> float | None:
        """Return how long to wait for an answer; None: as long as the client's time-out."""
        if give_up is None:
            return None
        return max(ANSWER_GRACE, give_up - self.clock.monotonic() - blocked)

    def may_repeat(self, give_up: float | None) -> bool:
        """Return whether there is time to send a command again that got no answer."""
        return give_up is None or self.clock.monotonic() < give_up

    def after_pop(self, error: RedisError, give_up: float | None) -> None:
        """Let the next acquire step find out what a lost answer was, if there is time for one."""
        if not (isinstance(error, NO_ANSWER) and self.may_repeat(give_up)):
            unavailable(self.name, error)

    def note_own_lease(
        self, leases: Iterable[Any], owner: object, timeout: float | None
    ) -> str | None:
        """Return a note for a wait for a lease of the waiting thread or task; None if it has none.

        Raises LockError if that lease never ends and the wait has no limit.
        """
        for lease in leases if self.reentrant else ():
            if (
                isinstance(lease, RedisLeaseState)
                and lease.token is not None  # otherwise it waits as well
                and lease.owner() is owner
                and lease.is_of(self.keys)
                and lease.remaining() > 0
            ):
                why = f"the caller itself holds {self.name!r} by another handle: use one handle"
                if timeout is None and lease.never_ends():
                    raise LockError(f"{why}; this call would wait forever")
                return why
        return None


class RedisHandle:
    """A lock's name and settings, and what each acquisition derives from them."""

    kind = "lock"
    """The prefix of the keys; locks of different kinds may have the same name."""
    scripts: Scripts = MUTEX
    always_fair = False
    remote_class: ClassVar[type[Remote]] = Remote
    capabilities: ClassVar[Capabilities] = Capabilities(
        fence=True,
        fair=True,
        renewal=True,
        extend=True,
        reentrant=True,
        survives_server_restart=False,
        crash_release="lease",
        counts_waiters=True,
        knows_owner=True,
        force_release=True,
    )

    def __init__(
        self,
        transport: Any,
        name: str,
        *,
        lease: float = 10.0,
        fair: bool = True,
        renew: bool = True,
        max_hold: float | None = None,
        owner: str | None = None,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Store the settings; see `RedisLock`."""
        if self.always_fair and not fair:
            raise ValueError(f"{type(self).__name__} has one queue for all: it is always fair")
        self.name = name
        longest = inf if max_hold is None else lease_length(max_hold, inf)
        self.lease_seconds = min(lease_length(lease), longest)
        self.max_hold = max_hold
        self.renewed = renew
        self.hooks = hooks
        self.keys = Keys.of(self.kind, name)
        self.remote = self.remote_class(self, transport, clock)
        self._mode = "f" if fair else "u"
        self._owner = owner
        self._held = Held()

    @property
    def transport(self) -> Any:
        """What sends the lock's commands; tests replace it."""
        return self.remote.transport

    @transport.setter
    def transport(self, transport: Any) -> None:
        self.remote.transport = transport

    @property
    def clock(self) -> Clock:
        """The source of time."""
        return self.remote.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.remote.clock = clock

    def new_holder(self) -> str:
        """Return the name of one acquisition: a unique token, and the owner for operators."""
        return f"{TOKENS.new()}:{self._owner or TOKENS.process}"

    def acquire_steps(self, holder: str, timeout: float | None) -> AcquireSteps:
        """Start the steps of one acquisition."""
        return acquire_steps(
            holder,
            name=self.name,
            lease=self.lease_seconds,
            mode=self._mode,
            timeout=timeout,
            monotonic=self.remote.clock.monotonic,
        )

    def give_up_at(self, timeout: float | None) -> float | None:
        """Return when no answer is awaited any more; None: the client's time-outs decide."""
        return self.remote.clock.monotonic() + timeout if timeout else None

    def abandon_args(self, holder: str) -> tuple[str, str, str]:
        """Return the release script's arguments for a waiter that was interrupted."""
        return holder, "0", f"{self._mode}{ms(self.lease_seconds)}:{holder}"

    def owners_in(self, values: list[bytes | str]) -> list[str]:
        """Return the owners in a list of "fence:token:owner"; a foreign value as it is."""
        return [text(value).split(":", 2)[-1] for value in values]

    def holds(self, lease: RedisLeaseState, values: list[bytes | str]) -> bool:
        """Return whether a lease is among the holders "fence:token:owner"."""
        return any(text(value).partition(":")[2] == lease.holder for value in values)

    def log_eviction(self, evicted: list[bytes | str], reason: str) -> bool:
        """Log which owners lost the lock and why; return whether there were any."""
        for owner in self.owners_in(evicted):
            logger.warning("lock %r was revoked from %s: %s", self.name, owner, reason)
        return bool(evicted)


class RedisLeaseState(LeaseState):
    """The state of one acquisition's lease; `holder` is its name on the server."""

    __slots__ = (
        "_count",
        "_extensions",
        "_keys",
        "_max_until",
        "_process",
        "_remote",
        "_seconds",
        "holder",
        "owner",
        "release_sent",
    )

    def __init__(self, lock: RedisHandle, holder: str, owner: object) -> None:
        """Create the state of an acquisition of `lock` by `owner`, a thread or a task."""
        super().__init__(lock.name, clock=lock.remote.clock, hooks=lock.hooks)
        self._remote: Any = lock.remote
        self.holder = holder
        self.owner: Callable[[], Any] = weakref.ref(owner)
        self.release_sent = False
        """Whether the server may have executed a release whose answer we did not get."""
        self._seconds = lock.lease_seconds
        self._keys = lock.keys
        self._extensions = 0
        self._process = TOKENS.process
        self._count = 1
        self._max_until = inf

    def begin(self, grant: Grant, max_hold: float | None) -> None:
        """Start the lease after its grant."""
        self.token = grant.fence
        self._granted_at = self.clock.monotonic()
        self._deadline = grant.since + self._seconds
        if max_hold is not None:
            self._max_until = self._granted_at + max_hold

    def is_of(self, keys: Keys) -> bool:
        """Return whether it is a lease of the lock with these keys."""
        return self._keys is keys or self._keys.all == keys.all

    def never_ends(self) -> bool:
        """Return whether the lease is renewed for as long as its owner lives."""
        return bool(self._remote.renewed) and self._max_until == inf

    # -- reentrancy, counted on the client only

    def count_reentry(self) -> bool:
        """Count one more acquire; return False if the lease has ended."""
        if self._released or self._is_lost():
            return False
        self._count += 1
        return True

    def count_release(self) -> bool:
        """Count one release; return whether it is the last."""
        if self._released or self._count == 1:
            return True
        self._count -= 1
        return False

    # -- renewal

    def renewal_seconds(self, now: float) -> float:
        """Return for how many seconds from now to renew the lease; 0.0 or less: do not renew."""
        if self.token is None or self._is_lost():
            return 0.0
        return min(self._seconds, self._max_until - now)

    def skip_renewal(self, now: float) -> tuple[Renewal, float]:
        """Return why no renewal was sent, and when to check again."""
        if self.token is None:
            return Renewal.HELD, now + self._seconds / 3  # still waiting in the queue
        if self._is_lost():
            return Renewal.LOST, inf
        return Renewal.HELD, self._deadline  # to record the loss on time

    def apply_renewal(
        self, answer: int, sent_at: float, seconds: float, extensions: int
    ) -> tuple[Renewal, float]:
        """Apply the server's answer to a renewal sent at `sent_at` for `seconds`.

        `extensions` is what `extensions` was before it was sent.
        """
        if answer == 0:
            # Our own release may have overtaken the renewal; then the lease is not lost.
            if not self._releasing:
                self.mark_lost("the server no longer knows it")
            return Renewal.LOST, inf
        # The server may set a shorter expiry after this renewal; `extend` knows that one.
        if extensions == self._extensions and extensions % 2 == 0:
            self._deadline = max(self._deadline, sent_at + seconds)
        return (Renewal.RENEWED if answer == 1 else Renewal.HELD), sent_at + self._seconds / 3

    def note_failed_renewal(self, error: LockError, sent_at: float) -> tuple[Renewal, float]:
        """Record that a renewal got no answer; return when to try again."""
        self.hooks.renewal_failed(self.name, error)
        return Renewal.UNKNOWN, min(sent_at + self._seconds / 9, self._deadline)

    # -- extension

    @property
    def extensions(self) -> int:
        """How often an `extend` has begun or ended: odd while one is under way."""
        return self._extensions

    def _extension(self, seconds: float) -> float:
        left = self._max_until - self.clock.monotonic()
        return min(super()._extension(seconds), max(left, MIN_LEASE))

    def begin_extension(self) -> None:
        """Count an extension; call before sending it, and `end_extension` after it."""
        self._extensions += 1

    def end_extension(self) -> None:
        """Count the end of an extension, whatever came of it."""
        self._extensions += 1

    # -- release

    def is_inherited(self) -> bool:
        """Return whether this is a forked child's copy of its parent's lease."""
        return self._process is not TOKENS.process

    def was_held(self, answer: int, repeated: bool) -> bool:
        """Return whether a release's answer means that we held the lock until then.

        `repeated`: an earlier try may have released it, and its answer was lost or interrupted.
        """
        return answer == 1 or (answer == 2 and repeated)

    def _is_lost(self) -> bool:
        if self.is_inherited():
            self.mark_lost("it belongs to the parent of this forked process")
        return super()._is_lost()


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
