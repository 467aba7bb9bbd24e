"""The production lock: fair and fenced, without polling, on Redis or Valkey, single or cluster.

The holder's release hands the lock and its fencing token to the first live waiter, which sleeps in
a blocking pop on its own list.  An uncontended acquire and release cost two commands, a contended
pair three, and no waiter wakes in vain.

Mutual exclusion holds while the server keeps its data and no holder is paused past its lease.  No
lease can promise more: a failover to a replica that lacks the last writes, or a paused process, may
admit two holders.  The fencing token covers these cases: it grows with every grant, even after the
server has lost all data, so a guarded write can refuse the older holder.

A command without an answer is sent twice.  An acquire fails if the server does not answer its first
command; later it rides out reconnects and fail-overs, for at most its time-out, or half a minute if
it has none.  Killed waiters, however many, delay the next living one by about a second.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from locking.backends.redis_core import RedisHandle
from locking.backends.redis_lease import RedisLeaseState, Remote
from locking.backends.redis_protocol import Steps
from locking.backends.redis_transport import transport_for
from locking.base import Lease, Lock
from locking.leases import time_limit

T = TypeVar("T")

ENTER = Lock.__enter__.__code__


class BlockingRemote(Remote):
    """A lock on its server, for blocking clients."""

    __slots__ = ()

    transport_of = staticmethod(transport_for)

    def perform(self, steps: Steps[T]) -> T:
        """Execute the steps; return their result.

        The steps also get the error that interrupts them between two steps.
        """
        running: Any = steps
        send, value = running.send, None
        try:
            while True:
                try:
                    function, args = send(value)
                    value = function(*args)
                    send = running.send
                except StopIteration as done:
                    result: T = done.value
                    return result
                except BaseException as error:
                    if running.gi_frame is None:
                        raise
                    send, value = running.throw, error
        finally:
            value = None  # an error would keep this frame alive, and so the lease


class RedisLease(RedisLeaseState, Lease):
    """A granted `RedisLock`; release it as often as its reentrant handle acquired it."""

    __slots__ = ()

    if TYPE_CHECKING:
        release, extend = Lease.release, Lease.extend

    def renew(self) -> tuple[bool, float]:
        """Renew the lease; called by the renewal thread."""
        outcome: tuple[bool, float] = self._remote.perform(self.renewing())
        return outcome

    @property
    def server(self) -> object:
        """The server that renewals ask."""
        return self._remote.transport.server_of(self._remote.keys[0])

    def keep(self, due: float) -> None:
        """Renew the lease from `due` (monotonic) on."""
        self._remote.renewer.register(self.holder, self, due)

    def drop(self) -> None:
        """Stop renewing the lease."""
        if self._remote.renewed:
            self._remote.renewer.cancel(self.holder)

    def _acquirer_ended(self) -> bool:
        # Not Thread.is_alive: it always returns True for the stand-in of a greenlet or of a foreign
        # thread, but gevent removes the stand-in from this list when the greenlet ends.
        return self.acquirer() not in threading.enumerate()


class RedisLock(RedisHandle, Lock):
    """A named lock on a Redis (from 6.2) or Valkey server, Sentinel or cluster.

    `client` is a blocking client of redis-py or valkey-py, best from `locking.redis_client`, or a
    URL as `locking.redis_client.connect` takes; the lock uses the client's time-outs but not its
    retries.  `lease` is the time in seconds for which a crashed holder blocks the others.  With
    `renew`, a live holder keeps the lock longer, up to `max_hold` seconds.  `timeout` is that of
    every acquire without one, also of `with lock:`.  Without `fair`, the first client to ask gets a
    free lock: more throughput, no order.  `owner` is the holder's name for others.

    A lease belongs to whoever has it, in any thread.  With `reentrant`, which needs an `owner`, the
    handle may acquire again what it holds, in any thread: it gets the same lease with the same
    token and releases it as often.  Otherwise it waits as any other; without a time-out that is an
    error in the thread that acquired the lease, because it would wait for itself.
    """

    remote: BlockingRemote
    remote_class = BlockingRemote
    lease_class = RedisLease

    if TYPE_CHECKING:
        owned, owner, waiters = Lock.owned, Lock.owner, Lock.waiters
        force_release = Lock.force_release

        @property
        def lease(self) -> RedisLease:
            """See `Lock.lease`."""

        def __enter__(self) -> RedisLease: ...

    def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> RedisLease:
        """Wait for the lock for at most `timeout` seconds; None: the handle's, 0: try once."""
        timeout = time_limit(timeout, blocking, self.timeout)
        thread, frame = threading.current_thread(), sys._getframe(1)
        if frame.f_code is ENTER and frame.f_back is not None:
            frame = frame.f_back
        asked_in = (id(frame), frame.f_code)
        steps = self._acquiring(thread, timeout, acquirer=thread, asked_in=asked_in)
        lease: RedisLease = self.remote.perform(steps)
        return lease
