"""The monitor of a run, which detects failures of the lock.

The monitor knows more than any client: the current holders, the order of arrival, and the last
writer of the lock's key.  It reports only failures that clients would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from course.simulator.history import MICROSECONDS, Kind, Text, Violation, Wrong, _, listed

if TYPE_CHECKING:
    from course.simulator.process import Process
    from course.simulator.redis_server import RedisServer
    from course.simulator.world import World

NEVER = 1 << 62

# A waiter reports every 2 s that it is alive, and counts as alive for 5 s.
MAX_GHOST = 5 * MICROSECONDS


@dataclass(slots=True)
class Attempt:
    """One client's try for the lock, from asking to leaving."""

    client: str
    asked_at: int
    waits_until: float = inf
    """When it gives up by itself."""
    arrived: int | None = None
    """The position in the queue: counted when the attempt's first command ran on the server."""
    grant: int = 0
    """1 for the first holder of the run, 2 for the next, …"""
    believes: Callable[[], bool] = field(default=lambda: True)
    """Whether the holder still believes that it holds the lock."""
    revoked: bool = False
    """Whether an operator has taken the lock from it; it need not know."""
    holder: bytes = b""
    """Its name on the server; empty if the lock has no such names."""
    remaining: Callable[[], float] = field(default=lambda: 0.0)
    """For how many seconds more it trusts its lease."""

    def holds(self) -> bool:
        """Return whether it believes so, and nobody has revoked it."""
        return not self.revoked and self.believes()


@dataclass(frozen=True, slots=True)
class KeyState:
    """The lock's key after a command: its revision, its value, and when it expires (virtual)."""

    revision: int | None
    value: Any
    free_from: int

    @staticmethod
    def of(server: RedisServer) -> KeyState:
        """Return the key's current state."""
        model, key = server.model, server.lock_key
        value, end = model.find(key), server.end_of(key)
        revision = model.data.revision.get(key)
        if value is None:
            return KeyState(revision, None, server.world.now)
        frozen = value if isinstance(value, bytes) else repr(value)
        return KeyState(revision, frozen, NEVER if end is None else end)

    @property
    def present(self) -> bool:
        """Whether a client had the lock."""
        return self.value is not None

    def ended(self, now: int) -> bool:
        """Return whether it had expired by then."""
        return self.free_from <= now


@dataclass(frozen=True, slots=True)
class Rules:
    """What a lock must do.

    `stops_at`: the run ends at the first of these.  `fair`: the first client to arrive must enter
    first.  `max_idle`: seconds for which the lock may be free while a client waits for it, or may
    belong to a client that does not know it; `max_idle_after_fault`: the same for a free lock after
    a fault.  `owner_in` extracts the client's name from the value of a lock that is handed over.
    """

    stops_at: Collection[Wrong] = tuple(Wrong)
    fair: bool = False
    max_idle: float | None = None
    max_idle_after_fault: float | None = None
    owner_in: Callable[[Any], str] | None = None


class Monitor:
    """The checks of one run.

    A holder that knows, by its own clock, that its lease is over does not count as a holder; a
    plain lock's holder always does.
    """

    def __init__(self, world: World, rules: Rules) -> None:
        self.world = world
        self.rules = rules
        self.violations: list[Violation] = []
        self.checks: list[Callable[[RedisServer], None]] = []
        """Further checks, made after each command."""
        self.inside: dict[str, Attempt] = {}
        self.waiting: dict[str, Attempt] = {}
        self._left: dict[str, Attempt] = {}
        self.grants = 0
        self.overlaps = 0
        self._handed_at: dict[str, int] = {}
        self._arrivals = 0
        self._key_holder: str | None = None
        self._key = KeyState(None, None, 0)
        self._free_for = 0.0

    # -- what clients report

    def asks(self, client: str, patience: float = inf) -> None:
        """Record that the client starts to acquire the lock, for so many seconds at most."""
        until = self.world.now + patience * MICROSECONDS
        self.waiting[client] = Attempt(client, self.world.now, until)
        self.world.processes[client].begin("acquire")

    def enters(self, client: str, believes: Callable[[], bool] = lambda: True) -> Attempt:
        """Record that the client got the lock; `believes` tells whether it still believes so."""
        attempt = self.waiting.pop(client)
        attempt.believes = believes
        self.grants += 1
        attempt.grant = self.grants
        self.world.record(Kind.ENTER, Text(_("enters as holder %s"), attempt.grant), who=client)
        self._check_exclusive(attempt)
        self._check_order(attempt)
        self._check_idle(attempt)
        self.inside[client] = attempt
        if believes():  # otherwise its answer came too late, and the key may be another client's
            self._key_holder = client
        self.world.processes[client].begin("work")
        return attempt

    def leaves(self, client: str) -> None:
        """Record that the client has finished its work and is about to release."""
        attempt = self.inside.pop(client, None)
        if attempt is not None:
            self._left[client] = attempt  # and may not have released yet
            self.world.record(Kind.LEAVE, Text(_("leaves")), who=client)
            self.world.processes[client].begin("release")

    def gives_up(self, client: str, why: str = "") -> None:
        """Record that the client did not get the lock."""
        self.waiting.pop(client, None)
        self.world.record(Kind.GIVE_UP, why or Text(_("gives up")), who=client)

    def crashed(self, client: str) -> None:
        """Record a crash: a dead client neither holds nor waits."""
        self.inside.pop(client, None)
        self.waiting.pop(client, None)

    # -- what servers report

    def sees(self, server: RedisServer, command: str) -> None:
        """Note a command before it runs: an eviction revokes the lock from its holders."""
        if not command.endswith("evict.lua"):
            return
        owners = {holder.rpartition(b":")[2].decode() for holder in server.holders()}
        for attempt in [*self.inside.values(), *self.waiting.values(), *self._left.values()]:
            if attempt.client in owners:
                attempt.revoked = True
                self.world.processes[attempt.client].disturbed = True

    def saw_arrival(self, process: Process) -> None:
        """Record the arrival of a client at the first command of its attempt."""
        attempt = self.waiting.get(process.name)
        if attempt is not None and attempt.arrived is None:
            self._arrivals += 1
            attempt.arrived = self._arrivals

    def saw_command(self, server: RedisServer, process: Process, *, changed: bool) -> None:
        """Check the effect of a command that has just run on the lock's server."""
        for check in self.checks:
            check(server)
        if changed and server.lock_key:
            self._saw_change(server, process)

    def _saw_change(self, server: RedisServer, process: Process) -> None:
        before, now = self._key, KeyState.of(server)
        if now.revision == before.revision:
            return
        self._key = now
        holder = self._key_holder
        if holder is not None and holder != process.name and holder in self.inside:
            self._check_undisturbed(holder, process.name, before, now)
        if now.present:
            self._free_for = max(0, self.world.now - before.free_from) / MICROSECONDS
        self._key_holder = process.name if now.present else None
        if now.present and self.rules.owner_in is not None:
            self._check_new_holder(self.rules.owner_in(now.value), process.name)

    def replaced(self, server: RedisServer) -> None:
        """Record that the server has lost or changed its data by itself."""
        if server.lock_key:
            self._key = KeyState.of(server)

    def key_owner(self) -> str | None:
        """Return the client that last wrote the lock's key or entered by it."""
        return self._key_holder

    def over(self) -> None:
        """Report clients that still wait at the end of a run: they will wait forever."""
        if self.waiting and not self.inside and not self.world.stopped:
            names = sorted(self.waiting)
            why = Text(_("nobody holds the lock, and %s will wait forever"), listed(names))
            self.report(Wrong.NOBODY_ENTERS, why, *names)

    # -- the checks

    def report(self, wrong: Wrong, why: str, *clients: str) -> None:
        """Report a failure."""
        self.violations.append(Violation(wrong, self.world.now, clients, why))
        what, who = Text("%s: %s", Text(wrong.value), why), clients[-1] if clients else ""
        self.world.record(Kind.VIOLATION, what, who=who)
        if wrong in self.rules.stops_at:
            self.world.stopped = True

    def _check_exclusive(self, attempt: Attempt) -> None:
        names = [one.client for one in self.inside.values() if one.holds()]
        if attempt.holds() and names:
            why = Text(_("%s enters while %s is still inside"), attempt.client, listed(names))
            self.report(Wrong.TWO_HOLDERS, why, *names, attempt.client)
        elif self.inside:
            self.overlaps += 1

    def _check_order(self, attempt: Attempt) -> None:
        if not self.rules.fair or attempt.arrived is None:
            return
        passed = [one.client for one in self._passed_by(attempt)]
        if passed and not self.world.processes[attempt.client].disturbed:
            why = Text(_("%s enters before %s, who came first"), attempt.client, listed(passed))
            self.report(Wrong.ORDER, why, *passed, attempt.client)

    def _passed_by(self, attempt: Attempt) -> list[Attempt]:
        """Return the undisturbed waiters that arrived before `attempt` and do not give up now."""
        place, processes = attempt.arrived or 0, self.world.processes
        return [
            one
            for one in self.waiting.values()
            if one.arrived is not None
            and one.arrived < place
            and self.world.now < one.waits_until
            and not processes[one.client].disturbed
        ]

    def _check_undisturbed(
        self, holder: str, culprit: str, before: KeyState, now: KeyState
    ) -> None:
        if before.ended(self.world.now) or not self.inside[holder].holds():
            return  # it was no longer the holder's
        if not now.present:
            why = Text(_("%s removes the lock that %s holds"), culprit, holder)
            self.report(Wrong.NOT_THEIRS, why, holder, culprit)
        elif now.value != before.value:
            why = Text(_("%s writes over the lock that %s holds"), culprit, holder)
            self.report(Wrong.MOVED, why, holder, culprit)

    def _check_new_holder(self, heir: str, giver: str) -> None:
        if heir == giver:
            return
        self._handed_at[heir] = self.world.now
        process = self.world.processes[heir]
        dead_for = self.world.now - process.crashed_at
        if process.crashed and dead_for > MAX_GHOST:
            why = f"{giver} hands it to {heir}, who died {dead_for / MICROSECONDS:.1f} s ago"
            self.report(Wrong.GHOST, why, heir, giver)

    def _check_idle(self, attempt: Attempt) -> None:
        client, now = attempt.client, self.world.now
        handed_at = self._handed_at.pop(client, now)
        processes, rules = self.world.processes, self.rules
        if rules.max_idle is None or processes[client].disturbed:
            return
        calm = not any(process.disturbed for process in processes.values())
        idle = min((now - attempt.asked_at) / MICROSECONDS, self._free_for)
        if idle > (rules.max_idle if calm else rules.max_idle_after_fault or rules.max_idle):
            why = Text(_("the lock was free for %s s while %s waited"), f"{idle:.1f}", client)
            self.report(Wrong.ASLEEP, why, client)
        late = (now - handed_at) / MICROSECONDS
        if late > rules.max_idle:
            why = Text(_("the lock was %s's for %s s before it knew"), client, f"{late:.1f}")
            self.report(Wrong.ASLEEP, why, client)


class Resource:
    """The guarded resource; if `fenced`, it refuses tokens older than the newest it has seen.

    It accepts every write without a token: there is nothing to compare.
    """

    def __init__(self, monitor: Monitor, *, fenced: bool) -> None:
        self._monitor = monitor
        self._fenced = fenced
        self._newest_token = 0
        self._newest_grant = 0
        self.refused = 0

    def write(self, client: str, attempt: Attempt, token: int | None) -> bool:
        """Write to the resource, as a separate step; return whether it was accepted."""
        monitor, world = self._monitor, self._monitor.world
        words = ("WRITE",) if token is None else ("WRITE", "with token", token)
        world.step(words)
        if self._fenced and token is not None and token < self._newest_token:
            self.refused += 1
            answer = f"refused: {self._newest_token} was seen"
            world.record(Kind.COMMAND, words, answer, who=client, server="resource")
            return False
        self._newest_token = token or 0
        world.record(Kind.COMMAND, words, "accepted", who=client, server="resource")
        if attempt.grant < self._newest_grant:
            late = _("holder %s (%s) writes after holder %s")
            why = Text(late, attempt.grant, client, self._newest_grant)
            monitor.report(Wrong.STALE_WRITE, why, client)
        if not attempt.revoked:  # it may have entered after its heir, not knowing
            self._newest_grant = max(self._newest_grant, attempt.grant)
        return True
