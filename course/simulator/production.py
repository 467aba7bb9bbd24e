"""The production Redis lock in the simulation, unchanged, like a lesson's lock.

It gets a redis-py client whose connections are simulated, and its modules get virtual time and
threads. The Lua scripts run in a real Lua interpreter. Each client is a process of its own, so each
lock gets a renewer of its own: the renewal thread runs in virtual time too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import locking.base
import locking.redis_lock
from course.simulator.history import MICROSECONDS, Text, Wrong, _
from course.simulator.lock_checks import LeaseChecks
from course.simulator.monitor import Attempt
from course.simulator.redis_client import Interrupted, SimulatedRedis
from course.simulator.redis_server import SCRIPT_NAMES, RedisServer
from course.simulator.simulation import FAILURES, KEY, Simulation
from locking import LockError
from locking.redis_lock import RedisLease, RedisLock, Renewer, Script, key_of

MODULES = (locking.base, locking.redis_lock)
"""The modules that get virtual time."""

LEASE = 10.0
"""Seconds."""

LONG_TIMEOUT = 240.0
"""Seconds; longer than all leases, pauses and work of a run combined."""

LOCK_KEY = key_of(KEY)
"""The key of the production lock named `KEY`."""

STOPS = (LockError, Interrupted)
"""What ends a client's work before its time."""

SCRIPTS = ("ACQUIRE", "RELEASE", "RENEW", "EVICT", "STATUS", "BELL")
"""The names of the scripts' constants in `locking.redis_lock`."""


def owner_in(value: bytes) -> str:
    """Return the client's name in the lock's value, "fence:token:owner"."""
    return value.split(b":", 2)[2].decode()


class SimulatedRenewer(Renewer):
    """The renewer of one simulated process, which is never forked."""

    def __init__(self) -> None:
        self._reset()


def make_lock(
    simulation: Simulation,
    server: RedisServer,
    owner: str,
    *,
    lease: float = LEASE,
    **settings: Any,
) -> RedisLock:
    """Return the lock's handle for the running process; `owner` is the process's name."""
    for name in SCRIPTS:
        script: Script = getattr(locking.redis_lock, name)
        SCRIPT_NAMES[script.source] = f"{name.lower()}.lua"
        server.load(script.source)
    lock = RedisLock(SimulatedRedis(server), KEY, lease=lease, owner=owner, **settings)
    lock.renewer = SimulatedRenewer()
    return lock


@dataclass(frozen=True, slots=True)
class Client:
    """A process that acquires the production lock `rounds` times, as a careful shop would.

    It works for `work` seconds, extends the lease to `extension` seconds and works on, unless that
    is 0, checks its lease, writes with the lease's fencing token, and releases.

    `lease` and `timeout` are in seconds. A client that `must_enter` comes when all others have
    ended, and can enter unless the lock is stuck forever. The process comes `after` seconds.
    """

    simulation: Simulation
    server: RedisServer
    name: str
    work: float
    extension: float = 0.0
    checks: LeaseChecks | None = None
    lease: float = LEASE
    timeout: float = LONG_TIMEOUT
    rounds: int = 1
    must_enter: bool = False
    after: float = 0.0

    def start(self, run: Callable[[], None]) -> None:
        """Add the process to the run."""
        self.simulation.start(self.name, run, after=self.after)

    def run(self, **settings: Any) -> None:
        """Acquire, hold and release."""
        simulation, name = self.simulation, self.name
        lock = make_lock(simulation, self.server, name, lease=self.lease, **settings)
        for _round in range(self.rounds):
            simulation.monitor.asks(name, self.timeout)
            faults = simulation.world.processes[name].faults
            try:
                lease = lock.acquire(self.timeout)
            except FAILURES as problem:
                simulation.fails(name, problem)
                self._gave_up(problem, faults)
            else:
                self._hold(lease)

    def _gave_up(self, problem: BaseException, faults: int) -> None:
        """Check a failed attempt, before which the process had suffered so many faults."""
        simulation, name = self.simulation, self.name
        suffered = simulation.world.processes[name].faults
        # No run holds the lock for so long.
        if (self.must_enter or self.timeout == LONG_TIMEOUT) and not suffered:
            why = f"{name} waited {self.timeout:g} s in vain"
            simulation.monitor.report(Wrong.NOBODY_ENTERS, why, name)
        if self.checks is not None:
            self.checks.gave_up(name, problem, suffered - faults)

    def _hold(self, lease: RedisLease) -> None:
        """Work and release."""
        attempt = self._enters(lease)
        simulation, name = self.simulation, self.name
        try:
            self._work()
            if self.extension:
                lease.extend(self.extension)
                self._work()
            lease.check()
            simulation.resource.write(name, attempt, lease.token)
        except STOPS as problem:
            simulation.note(name, f"stops: {problem!r}")
        simulation.monitor.leaves(name)
        over = None if self.checks is None else self.checks.releases(attempt, lease)
        refusal = _release(lease)
        if over is not None:
            over(refusal)
        if refusal is None:
            simulation.check_let_go(name, lease.holder_id.encode())
        else:
            simulation.note(name, Text(_("learns that %s"), refusal))

    def _enters(self, lease: RedisLease) -> Attempt:
        monitor = self.simulation.monitor
        attempt = monitor.enters(self.name, lambda: self._trusts(lease) > 0)
        attempt.holder, attempt.remaining = lease.holder_id.encode(), partial(self._trusts, lease)
        if not attempt.believes():  # no time has passed since acquire returned
            why = f"{self.name} is given a lease that is over"
            monitor.report(Wrong.STILLBORN, why, self.name)
        if self.checks is not None:
            self.checks.entered(attempt, lease)
        return attempt

    def _trusts(self, lease: RedisLease) -> float:
        """Return for how many seconds more this process trusts its lease, by its own clock.

        `lease.remaining()` would read the clock of the process that runs now, but the monitor asks
        while any process runs.
        """
        if lease.released or lease._lost:
            return 0.0
        world = self.simulation.world
        now = (world.now + world.processes[self.name].booted) / MICROSECONDS
        return max(0.0, lease._deadline - now)

    def _work(self) -> None:
        self.simulation.works(self.name, self.work)
        if self.work:
            self.simulation.world.sleep(self.work)


def _release(lease: RedisLease) -> LockError | None:
    """Release, again if interrupted, as `with` in a program that is being stopped."""
    while True:
        try:
            lease.release()
        except LockError as problem:
            return problem
        except Interrupted:
            continue
        return None
