"""The checks of the production lock's leases."""

from __future__ import annotations

from collections.abc import Callable

from course.simulator.history import Wrong
from course.simulator.monitor import Attempt, Monitor
from course.simulator.redis_server import RedisServer
from locking import LockError, LockLost, LockUnavailable
from locking.redis_lock import RedisLeaseState


class LeaseChecks:
    """Checks, in one run, of what clients believe of their leases against what the server knows."""

    def __init__(self, monitor: Monitor, server: RedisServer) -> None:
        self._monitor = monitor
        self._server = server
        self._tokens: list[int] = []
        self._lingering: set[str] = set()
        monitor.checks += [self._check_beliefs, self._check_expiries]

    def entered(self, attempt: Attempt, lease: RedisLeaseState) -> None:
        """Check the token of a new holder against those of earlier ones."""
        if attempt.holder in self._server.holders():
            attempt.revoked = False  # what was revoked while it waited was an earlier grant
        if not attempt.holds():
            return
        token = lease.token or 0
        if self._tokens and token <= self._tokens[-1]:
            why = f"{attempt.client} gets {token} after {self._tokens[-1]}"
            self._monitor.report(Wrong.TOKEN, why, attempt.client)
        self._tokens.append(token)

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
        if not isinstance(error, (LockError, KeyboardInterrupt)):
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
