"""The production Redis locks on the simulated server, unchanged, blocking and asyncio.

`locking.backends.redis` accepts a `Transport` in place of a client, a `Clock` and a `Renewer`.  The
transport is the production one too, on simulated connections.  The Lua scripts run in a real Lua
interpreter.

A client's program is written once, as a coroutine.  `Blocking` and `VirtualLoop` (for asyncio) say
how it `waits`: that of a blocking lock never waits in an event loop, so one `send` runs all of it.
"""

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from math import inf
from typing import Any, TypeVar

import locking.backends.redis
import locking.backends.redis_core
import locking.renewal
from course.simulator.history import Text, Wrong, _
from course.simulator.lock_checks import LeaseChecks
from course.simulator.monitor import Attempt
from course.simulator.redis_client import Interrupted, SimulatedPool
from course.simulator.redis_server import SCRIPT_NAMES, RedisServer
from course.simulator.simulation import FAILURES, KEY, Simulation
from course.simulator.world import World
from locking.backends.redis import RedisLock
from locking.backends.redis_core import RedisHandle
from locking.backends.redis_lease import RedisLeaseState
from locking.backends.redis_protocol import BELL, WAITERS
from locking.backends.redis_transport import NodeTransport
from locking.renewal import Renewer
from locking.terms import Clock, LockError

MODULES = (locking.backends.redis, locking.backends.redis_core, locking.renewal)

LEASE = 10.0

LONG_TIMEOUT = 240.0
"""Seconds; longer than all leases, pauses and work of a run combined."""

LOCK_KEY = f"lock:{{{KEY}}}"
"""The key of the production lock named `KEY`."""

STOPS = (LockError, Interrupted, CancelledError)
"""What ends a client's work before its time."""

T = TypeVar("T")


def owner_in(value: bytes) -> str:
    """Return the client's name in the lock's value, "fence:token:owner"."""
    return value.split(b":", 2)[2].decode()


class SimulatedRenewer(Renewer):
    """The renewer of one simulated process, which is never forked."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._forget()


def load_scripts(server: RedisServer, kind: type[RedisHandle]) -> None:
    """Make the scripts of a lock known to the server."""
    for script in (*kind.scripts, WAITERS, BELL):
        SCRIPT_NAMES[script.source] = f"{script.name}.lua"
        server.load(script.source)


def make_lock(
    simulation: Simulation,
    server: RedisServer,
    owner: str,
    kind: type[RedisLock] = RedisLock,
    *,
    lease: float = LEASE,
    **settings: Any,
) -> RedisLock:
    """Return the lock's handle for the running process; `owner` is the process's name."""
    world = simulation.world
    clock = Clock(monotonic=world.seconds, sleep=world.sleep)
    load_scripts(server, kind)
    lock = kind(
        NodeTransport(SimulatedPool(server)),
        KEY,
        lease=lease,
        owner=owner,
        clock=clock,
        **settings,
    )
    lock.remote.renewer = SimulatedRenewer(clock)
    return lock


class Blocking:
    """How the program of a blocking lock waits: in the world itself."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        self._world.sleep(seconds)

    async def call(self, command: Callable[[], T]) -> T:
        """Run a command that lets the world choose; return its result."""
        return command()

    def check_alive(self) -> None:
        """Do nothing: the world ends the greenlets of a dead process."""


async def result(answer: Any) -> Any:
    """Return the answer of a blocking lock, or what the coroutine of an asyncio lock returns."""
    return await answer if isawaitable(answer) else answer


@dataclass(frozen=True, slots=True)
class Client:
    """A process that acquires the production lock `rounds` times, as a careful shop would.

    It works for `work` seconds, extends the lease to `extension` seconds and works on, unless that
    is 0, checks its lease, writes with the lease's fencing token, and releases.

    `lease` is in seconds.  A client that `must_enter` comes when all others have ended, and can
    enter unless the lock is stuck forever.
    """

    simulation: Simulation
    server: RedisServer
    name: str
    work: float
    extension: float = 0.0
    checks: LeaseChecks | None = None
    lease: float = LEASE
    timeout: float | None = LONG_TIMEOUT
    rounds: int = 1
    must_enter: bool = False
    after: float = 0.0

    def start(self, run: Callable[[], None]) -> None:
        """Add the process to the run; it comes `after` seconds."""
        self.simulation.start(self.name, run, after=self.after)

    def run(self, kind: type[RedisLock] = RedisLock, **settings: Any) -> None:
        """Run the process with a blocking lock."""
        simulation, lease = self.simulation, self.lease
        lock = make_lock(simulation, self.server, self.name, kind, lease=lease, **settings)
        with suppress(StopIteration):
            self.program(lock, Blocking(self.simulation.world)).send(None)

    async def program(self, lock: Any, waits: Any) -> None:
        """Acquire, hold and release."""
        simulation, name = self.simulation, self.name
        for _round in range(self.rounds):
            patience = inf if self.timeout is None else self.timeout
            simulation.monitor.asks(name, patience)
            faults = simulation.world.processes[name].faults
            try:
                lease = await result(lock.acquire(self.timeout))
            except (*FAILURES, CancelledError) as problem:
                waits.check_alive()
                simulation.fails(name, problem)
                self._gave_up(problem, faults)
            else:
                await self._hold(lease, waits)

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

    async def _hold(self, lease: Any, waits: Any) -> None:
        """Work and release."""
        attempt = self._enters(lease)
        simulation, name = self.simulation, self.name
        try:
            await self._work(waits)
            if self.extension:
                await result(lease.extend(self.extension))
                await self._work(waits)
            lease.check()
            token = lease.token
            await waits.call(lambda: simulation.resource.write(name, attempt, token))
        except STOPS as problem:
            waits.check_alive()
            simulation.note(name, f"stops: {problem!r}")
        simulation.monitor.leaves(name)
        over = None if self.checks is None else self.checks.releases(attempt, lease)
        refusal = await _release(lease, waits)
        if over is not None:
            over(refusal)
        if refusal is None:
            simulation.check_let_go(name, lease.holder.encode())
        else:
            simulation.note(name, Text(_("learns that %s"), refusal))

    def _enters(self, lease: RedisLeaseState) -> Attempt:
        monitor = self.simulation.monitor
        attempt = monitor.enters(self.name, lambda: lease.remaining() > 0)
        if not attempt.believes():  # no time has passed since acquire returned
            why = f"{self.name} is given a lease that is over"
            monitor.report(Wrong.STILLBORN, why, self.name)
        if self.checks is not None:
            self.checks.entered(attempt, lease)
        return attempt

    async def _work(self, waits: Any) -> None:
        self.simulation.works(self.name, self.work)
        if self.work:
            await waits.sleep(self.work)


async def _release(lease: Any, waits: Any) -> LockError | None:
    """Release, again if interrupted, as `with` in a program that is being stopped."""
    while True:
        try:
            await result(lease.release())
        except LockError as problem:
            return problem
        except (Interrupted, CancelledError):
            waits.check_alive()
        else:
            return None
