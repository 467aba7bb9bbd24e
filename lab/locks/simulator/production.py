"""The production Redis locks on the simulated server, unchanged.

`locking.backends.redis` accepts a `Transport` in place of a client, a `Clock` and a `Renewer`.  Its
Lua scripts run in a real Lua interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import locking.backends.redis
import locking.backends.redis_protocol
import locking.renewal
from lab.locks.simulator.history import Wrong
from lab.locks.simulator.process import Process
from lab.locks.simulator.redis_server import RedisServer
from lab.locks.simulator.simulation import KEY, Simulation
from locking.backends.redis import RedisLease, RedisLock
from locking.backends.redis_protocol import Script
from locking.base import Clock, LockError
from locking.renewal import Renewer

MODULES = (locking.backends.redis, locking.backends.redis_protocol, locking.renewal)

LEASE = 10.0

LONG_TIMEOUT = 120.0
"""Seconds; longer than all leases, pauses and work of a run combined."""

LOCK_KEY = f"lock:{{{KEY}}}"
"""The key of the production lock named `KEY`."""


def owner_in(value: bytes) -> str:
    """Return the client's name in the lock's value, "fence:token:owner"."""
    return value.split(b":", 2)[2].decode()


class SimulatedTransport:
    """Sends a lock's scripts and blocking pops to a simulated server; never retries."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str],
        wait: tuple[int, int] | None = None,
        patience: float | None = None,
    ) -> Any:
        """Run the script; (answer, replicas) if asked to `wait` for them."""
        answer = self._server.script(script.name, script.source, keys, args)
        return answer if wait is None else (answer, wait[0])

    def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        """BLPOP."""
        reply = self._server.command(("BLPOP", key, f"{seconds:.3f}"))
        return None if reply is None else reply[1]


class SimulatedRenewer(Renewer):
    """The renewer of one simulated process, which is never forked."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._forget()


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
    return kind(
        SimulatedTransport(server),
        KEY,
        lease=lease,
        owner=owner,
        clock=clock,
        renewer=SimulatedRenewer(clock),
        **settings,
    )


def client(
    simulation: Simulation,
    server: RedisServer,
    name: str,
    *,
    make: Maker = make_lock,
    role: str = "",
    timeout: float | None = LONG_TIMEOUT,
    work: float = 2.0,
    after: float = 0.0,
    rounds: int = 1,
    writes: bool = True,
) -> Process:
    """Add a process that acquires the production lock `rounds` times, as a careful shop would.

    It works, checks its lease, writes with the lease's fencing token, and releases.  `role` is for
    the monitor of a lock with several holders.
    """

    def run() -> None:
        lock = make(simulation, server, name)
        for _ in range(rounds):
            simulation.monitor.asks(name, role)
            lease = simulation.attempt(name, lambda: lock.acquire(timeout))
            if lease is None:
                check_not_starved(simulation, name, timeout)
            else:
                hold(simulation, name, lease, work=work, writes=writes)

    return simulation.start(name, run, after=after)


def check_not_starved(simulation: Simulation, name: str, timeout: float | None) -> None:
    """Report a client that timed out although no run holds the lock for that long."""
    if timeout == LONG_TIMEOUT and not simulation.world.me().disturbed:
        why = f"{name} waited {timeout:g} s in vain"
        simulation.monitor.report(Wrong.NOBODY_ENTERS, why, name)


def hold(
    simulation: Simulation, name: str, lease: RedisLease, *, work: float, writes: bool
) -> None:
    """Run the holder from acquire to release."""
    attempt = simulation.monitor.enters(name, lambda: lease.remaining() > 0)
    if not attempt.believes():  # no time has passed since acquire returned
        simulation.monitor.report(Wrong.STILLBORN, f"{name} is given a lease that is over", name)
    simulation.work(name, work)
    try:
        if writes:
            lease.check()
            simulation.resource.write(name, attempt, lease.token)
        simulation.monitor.leaves(name)
        lease.release()
    except LockError as problem:
        # LockLost, or LockUnavailable: then the lease expires.
        simulation.monitor.leaves(name)
        simulation.note(name, f"learns that {problem}")
    else:
        simulation.check_let_go(name, lease.holder.encode())
