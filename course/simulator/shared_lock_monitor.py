"""The monitor of a shared lock: a read/write lock or a semaphore.

The sharing rules are repeated here independently of the scripts: a reader (role "r") may share with
readers, a writer ("w") with no one, "s3" has one of three permits, and "s3x2" two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.monitor import Attempt, Monitor
from course.simulator.world import EPOCH

if TYPE_CHECKING:
    from course.simulator.process import Process
    from course.simulator.redis_server import RedisServer


def may_share(roles: Sequence[str]) -> bool:
    """Return whether holders in these roles may be inside at once."""
    if len(roles) <= 1:
        return True
    if roles[0][0] == "s":
        shares = [role[1:].split("x") for role in roles]  # "s3x2": two of three permits
        return sum(int(share[1]) if share[1:] else 1 for share in shares) <= int(shares[0][0])
    return set(roles) == {"r"}


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

    def saw_command(self, server: RedisServer, process: Process, *, changed: bool) -> None:
        """Check the effect of a command that has just run on the lock's server."""
        for check in self.checks:
            check(server)
        if not changed or not server.lock_key:
            return
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

    def _check_exclusive(self, attempt: Attempt) -> None:
        def fits(others: list[Attempt]) -> bool:
            return may_share([attempt.role, *(one.role for one in others)])

        others = list(self.inside.values())
        awake = [one for one in others if one.holds()]
        if attempt.holds() and not fits(awake):
            names = [one.client for one in awake]
            why = f"{attempt.client} enters while {' and '.join(names)} is still inside"
            self.report(Wrong.TWO_HOLDERS, why, *names, attempt.client)
        elif not fits(others):
            self.overlaps += 1

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
