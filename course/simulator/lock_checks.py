"""The checks of the production locks: of leases, and of locks with several holders.

The sharing rules are repeated here independently of the scripts: a reader (role "r") may share with
readers, a writer ("w") with no one, "s3" has one of three permits, and "s3x2" two of them.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass

from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.monitor import Attempt, Monitor, may_share
from course.simulator.process import Process
from course.simulator.redis_server import RedisServer
from course.simulator.world import EPOCH
from locking.backends.redis_lease import RedisLeaseState
from locking.terms import LockError, LockLost, LockUnavailable


class LeaseChecks:
    """Checks, in one run, of what clients believe of their leases against what the server knows."""

    def __init__(self, monitor: Monitor, server: RedisServer) -> None:
        self._monitor = monitor
        self._server = server
        self._tokens: list[tuple[str, int]] = []
        self._lingering: set[str] = set()
        monitor.checks += [self._check_beliefs, self._check_expiries]

    def entered(self, attempt: Attempt, lease: RedisLeaseState) -> None:
        """Check the token of a new holder against those of earlier ones."""
        attempt.holder, attempt.remaining = lease.holder.encode(), lease.remaining
        if attempt.holder in self._server.holders():
            attempt.revoked = False  # what was revoked while it waited was an earlier grant
        if not attempt.holds():
            return
        token = lease.token or 0
        for role, other in self._tokens:
            # Holders that may share the lock can notice their grants in any order.
            together = role[:1] == attempt.role[:1] and role[:1] in ("r", "s")
            if token == other or (token < other and not together):
                why = f"{attempt.client} gets {token} after {other}"
                self._monitor.report(Wrong.TOKEN, why, attempt.client)
        self._tokens.append((attempt.role, token))

    def releases(
        self, attempt: Attempt, lease: RedisLeaseState
    ) -> Callable[[LockError | None], None]:
        """Note a release that begins; call the result with its error, or None, when it ends."""
        world, client = self._monitor.world, attempt.client
        process = world.processes[client]
        held = attempt.holder in self._server.holders() and not attempt.revoked
        ends, faults = world.seconds() + lease.remaining(), process.faults

        def over(error: LockError | None) -> None:
            if isinstance(error, LockLost) and not attempt.revoked:
                if held and world.seconds() < ends:
                    self._monitor.report(Wrong.FALSE_LOSS, f"{client} released it itself", client)
                elif not process.faults:
                    why = f"{client}, which nothing has disturbed, loses its lock"
                    self._monitor.report(Wrong.LOST, why, client)
            elif error is None and not held and process.faults == faults:
                why = f"{client} releases what it no longer has, and is told that all is well"
                self._monitor.report(Wrong.UNNOTICED, why, client)

        return over

    def gave_up(self, client: str, error: BaseException, faults: int) -> None:
        """Check that a client that gave up, after some `faults`, is not on the server any more."""
        if not isinstance(error, (LockError, KeyboardInterrupt, CancelledError)):
            self._monitor.report(Wrong.ERROR, f"{client} gets {error!r}", client)
        if isinstance(error, LockUnavailable) or faults > 1:
            # It may not have been able to say so: its entry stands in the way of its next one.
            self._lingering.add(client)
            self._monitor.world.processes[client].disturbed = True
        if client in self._lingering:
            return
        model, key = self._server.model, self._server.lock_key
        queue, alive = model.find(key + b":queue"), model.find(key + b":alive")
        names = [*self._server.holders(), *(queue or []), *(alive or [])]
        if any(name.endswith(f":{client}".encode()) for name in names):
            self._monitor.report(Wrong.LEFTOVER, f"{client} left, and the server keeps it", client)

    def _check_beliefs(self, server: RedisServer) -> None:
        holders = server.holders()
        for attempt in self._monitor.inside.values():
            trusted = attempt.remaining()
            if attempt.holder and trusted > holders.get(attempt.holder, 0.0) and attempt.holds():
                client = attempt.client
                why = f"{client} trusts its lease for {trusted:.3f} s more, beyond its end"
                self._monitor.report(Wrong.MISTAKEN, why, client)

    def _check_expiries(self, server: RedisServer) -> None:
        model = server.model
        for key in model.names():
            if model.end(key) is None:
                self._monitor.report(Wrong.LITTER, f"{key.decode()} has no expiry")


@dataclass(frozen=True, slots=True)
class Holder:
    """A client that holds the lock or waits for it, in the server's format: "role-token:owner"."""

    role: str
    token: str
    owner: str

    @staticmethod
    def read(member: bytes) -> Holder:
        """Parse the format."""
        token, _, owner = member.decode().partition(":")
        return Holder(token.partition("-")[0], token, owner)


@dataclass(frozen=True, slots=True)
class SharedLockState:
    """The lock after a command: its time, each holder's lease end, and the first waiter.

    Times are virtual microseconds.
    """

    since: int
    ends: dict[Holder, int]
    first: Holder | None

    @staticmethod
    def of(server: RedisServer) -> SharedLockState:
        """Return the lock's current state."""
        model, key = server.model, server.lock_key
        inside = model.find(key)
        queue = model.find(key + b":queue")
        scores = inside or {}
        ends = {
            Holder.read(member): round(score) * 1000 - EPOCH - server.skew
            for member, score in scores.items()
        }
        # A waiter is "f10000:" followed by its future holder entry.
        first = Holder.read(queue[0].partition(b":")[2]) if queue else None
        return SharedLockState(server.world.now, ends, first)

    def inside(self, now: int) -> list[Holder]:
        """Return the owners whose leases have not ended by then."""
        return [holder for holder, end in self.ends.items() if end > now]

    def end_of(self, owner: str) -> int:
        """Return when the last of the owner's leases ends; 0 if there is none."""
        return max([end for holder, end in self.ends.items() if holder.owner == owner], default=0)

    def open_from(self, newcomer: Holder) -> int:
        """Return the time from which the newcomer could have entered."""
        ends = [self.since, *sorted(end for end in self.ends.values() if end > self.since)]
        return next(
            at
            for at in ends
            if may_share([newcomer.role, *(holder.role for holder in self.inside(at))])
        )


class SharedLockMonitor(Monitor):
    """The checks of :class:`Monitor`, for a lock with several holders."""

    _state = SharedLockState(0, {}, None)

    def _saw_change(self, server: RedisServer, process: Process) -> None:
        before, now = self._state, SharedLockState.of(server)
        self._state = now
        self._check_open(before)
        for owner in self.inside:
            if owner != process.name:
                self._check_kept(owner, process.name, before, now)
        for owner in {one.owner for one in now.ends} - {one.owner for one in before.ends}:
            self._check_new_holder(owner, process.name)

    def replaced(self, server: RedisServer) -> None:
        """Record that the server has lost or changed its data by itself."""
        self._state = SharedLockState.of(server)

    def key_owner(self) -> str | None:
        """Return None: a shared lock has no single owner."""
        return None

    # -- the checks

    def _passed_by(self, attempt: Attempt) -> list[Attempt]:
        # Clients admitted together may notice it in any order.
        let_in = {holder.owner for holder in self._state.ends}
        return [one for one in super()._passed_by(attempt) if one.client not in let_in]

    def _check_kept(
        self, owner: str, culprit: str, before: SharedLockState, now: SharedLockState
    ) -> None:
        end = before.end_of(owner)
        if end <= self.world.now or not self.inside[owner].holds():
            return  # it was no longer the owner's
        if not now.end_of(owner):
            why = f"{culprit} puts {owner} out, who is inside"
            self.report(Wrong.NOT_THEIRS, why, owner, culprit)
        elif now.end_of(owner) < end:
            why = f"{culprit} shortens the lease of {owner}, who is inside"
            self.report(Wrong.MOVED, why, owner, culprit)

    def _check_open(self, before: SharedLockState) -> None:
        """Check that the first waiter does not wait although it may enter."""
        first = before.first
        if first is None or self.rules.max_idle is None:
            return
        if self.world.processes[first.owner].disturbed:
            return  # it may be dead or paused: the queue waits until that is known
        idle = (self.world.now - before.open_from(first)) / MICROSECONDS
        if idle > self.rules.max_idle:
            why = f"{first.owner} was next and might have entered {idle:.1f} s ago"
            self.report(Wrong.ASLEEP, why, first.owner)
