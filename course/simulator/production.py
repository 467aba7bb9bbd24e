"""The production Redis locks on the simulated server, unchanged.

`locking.backends.redis` accepts a `Transport` in place of a client, a `Clock` and a `Renewer`.  The
transport is the production one too, on simulated connections.  The Lua scripts run in a real Lua
interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from typing import Any

import locking.backends.redis
import locking.backends.redis_core
import locking.renewal
from course.simulator.connection import SOCKET_TIMEOUT, Interrupted, SimulatedConnection
from course.simulator.history import Wrong
from course.simulator.lease_checks import LeaseChecks
from course.simulator.monitor import Attempt
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import KEY, Simulation
from locking.backends._drivers import Driver
from locking.backends.redis import RedisLease, RedisLock
from locking.backends.redis_core import RedisHandle
from locking.backends.redis_lease import RedisLeaseState
from locking.backends.redis_transport import NodeTransport
from locking.renewal import Renewer
from locking.terms import Clock, LockError

MODULES = (locking.backends.redis, locking.backends.redis_core, locking.renewal)

DRIVER = Driver("redis", asynchronous=False, cluster=False)

LEASE = 10.0

LONG_TIMEOUT = 240.0
"""Seconds; longer than all leases, pauses and work of a run combined."""

LOCK_KEY = f"lock:{{{KEY}}}"
"""The key of the production lock named `KEY`."""


def owner_in(value: bytes) -> str:
    """Return the client's name in the lock's value, "fence:token:owner"."""
    return value.split(b":", 2)[2].decode()


class SimulatedPool:
    """The part of redis-py's connection pool that the transports need."""

    def __init__(self, server: RedisServer) -> None:
        self.connection_class = partial(SimulatedConnection, server)
        self.connection_kwargs = {"socket_timeout": SOCKET_TIMEOUT}

    def disconnect(self) -> None:
        """Do nothing: it has no connections."""


class SimulatedClient:
    """The part of redis-py's client that the transports need."""

    def __init__(self, server: RedisServer) -> None:
        self.connection_pool = SimulatedPool(server)


class SimulatedRenewer(Renewer):
    """The renewer of one simulated process, which is never forked."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._forget()


def load_scripts(server: RedisServer, kind: type[RedisHandle]) -> None:
    """Make the scripts of a lock known to the server."""
    for script in asdict(kind.scripts).values():
        server.load(f"{script['name']}.lua", script["source"])


Maker = Callable[[Simulation, RedisServer, str], RedisLock]


def make_lock(
    simulation: Simulation,
    server: RedisServer,
    owner: str,
    *,
    kind: type[RedisLock] = RedisLock,
    lease: float = LEASE,
    **settings: Any,
) -> RedisLock:
    """Return the lock's handle for the running process; `owner` is the process's name."""
    world = simulation.world
    clock = Clock(monotonic=world.seconds, sleep=world.sleep)
    load_scripts(server, kind)
    return kind(
        NodeTransport(SimulatedClient(server), DRIVER),
        KEY,
        lease=lease,
        owner=owner,
        clock=clock,
        renewer=SimulatedRenewer(clock),
        **settings,
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """What a client does with a lease, from acquire to release.

    It works for `work` seconds, extends the lease to `extension` seconds and works on, unless that
    is 0, checks its lease, writes with the lease's fencing token, and releases.  With `hands_on`,
    it hands the lease on after its work and resumes it by its id.
    """

    simulation: Simulation
    name: str
    work: float
    extension: float = 0.0
    writes: bool = True
    checks: LeaseChecks | None = None
    hands_on: bool = False

    def hold(self, lease: RedisLease, lock: RedisLock | None = None) -> None:
        """Run the holder; `lock` is another handle of it, if it may resume by that."""
        attempt = self.enters(lease)
        simulation, name = self.simulation, self.name
        try:
            simulation.work(name, self.work)
            if self.hands_on and lock is not None:
                ident = lease.hand_on()
                self.follows(attempt, lease := lock.resume(ident))
            if self.extension:
                lease.extend(self.extension)
                simulation.work(name, self.work)
            if self.writes:
                lease.check()
                simulation.resource.write(name, attempt, lease.token)
        except (LockError, Interrupted) as problem:
            simulation.note(name, f"stops: {problem!r}")
        simulation.monitor.leaves(name)
        if lease.released:
            return  # handed on, and it is not known whether it was resumed: the lease will end
        over = None if self.checks is None else self.checks.releases(attempt, lease)
        self.ended(lease, over, _release(lease))

    def enters(self, lease: RedisLeaseState) -> Attempt:
        """Tell the monitor of the new holder."""
        monitor = self.simulation.monitor
        attempt = monitor.enters(self.name, lambda: lease.remaining() > 0)
        if not attempt.believes():  # no time has passed since acquire returned
            why = f"{self.name} is given a lease that is over"
            monitor.report(Wrong.STILLBORN, why, self.name)
        if self.checks is not None:
            self.checks.entered(attempt, lease)
        return attempt

    def follows(self, attempt: Attempt, lease: RedisLeaseState) -> None:
        """Tell the monitor that the holder goes on by a lease that it has resumed."""
        attempt.holder, attempt.remaining = lease.holder.encode(), lease.remaining
        attempt.believes = lambda: lease.remaining() > 0

    def ended(
        self,
        lease: RedisLeaseState,
        over: Callable[[LockError | None], None] | None,
        problem: LockError | None,
    ) -> None:
        """Check what came of the release: nothing, LockLost, or LockUnavailable."""
        if over is not None:
            over(problem)
        if problem is None:
            self.simulation.check_let_go(self.name, lease.holder.encode())
        else:
            self.simulation.note(self.name, f"learns that {problem}")


@dataclass(frozen=True, slots=True)
class Client:
    """A process that acquires the production lock `rounds` times, as a careful shop would.

    `role` is for the monitor of a lock with several holders; `lease` is in seconds.
    """

    server: RedisServer
    holder: Holder
    role: str = ""
    lease: float = LEASE
    timeout: float | None = LONG_TIMEOUT
    rounds: int = 1

    def run(self, make: Maker = make_lock) -> None:
        """Run the process with a blocking lock."""
        simulation, name = self.holder.simulation, self.holder.name
        lock = make(simulation, self.server, name)
        for _ in range(self.rounds):
            faults = self.asks()
            lease = simulation.attempt(name, lambda: lock.acquire(self.timeout))
            if lease is not None:
                self.holder.hold(lease, lock)
            else:
                self.gave_up(faults)

    def asks(self) -> int:
        """Tell the monitor of an attempt; return how many faults the process has suffered."""
        simulation, name = self.holder.simulation, self.holder.name
        simulation.monitor.asks(name, self.role, inf if self.timeout is None else self.timeout)
        return simulation.world.me().faults

    def gave_up(self, faults: int) -> None:
        """Check a failed attempt, before which the process had suffered so many faults."""
        simulation, name = self.holder.simulation, self.holder.name
        faults = simulation.world.me().faults - faults
        # No run holds the lock for so long.
        if self.timeout == LONG_TIMEOUT and not simulation.world.me().faults:
            why = f"{name} waited {self.timeout:g} s in vain"
            simulation.monitor.report(Wrong.NOBODY_ENTERS, why, name)
        if self.holder.checks is not None:
            self.holder.checks.gave_up(name, simulation.failures[name], faults)


def _release(lease: RedisLease) -> LockError | None:
    """Release, again if interrupted, as `with` in a program that is being stopped."""
    while True:
        try:
            lease.release()
        except Interrupted:
            continue
        except LockError as problem:
            return problem
        return None
