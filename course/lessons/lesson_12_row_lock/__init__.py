"""Lesson 12: no row, no lock; and a transaction that nobody ends."""

from collections.abc import Callable, Mapping
from typing import Any

from course.plan import CRASH_OR_SWITCH, NOTHING, ONE_ENTERS, Check, Flaw, Plan, two_clients
from course.simulator.history import Wrong
from course.simulator.simulation import KEY, Simulation
from course.simulator.table import TableServer


class WithTimeout:
    """The lock, which waits in the database and has no time-out, as the others are called."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.release = lock.release

    def acquire(self, _timeout: float = 0.0) -> Any:
        """Lock, without a time-out."""
        return self._lock.acquire()


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    work: Mapping[str, float] | None = None,
    row_exists: bool = True,
    forgets: str = "",
) -> None:
    """Add two clients; the one that `forgets` never commits."""
    server = TableServer(simulation.world)
    if row_exists:
        server.preload("lock_row", name=KEY, taken_at=0.0)
    else:
        simulation.given(f"has no row named {KEY}", server=server.name)

    def make() -> WithTimeout:
        return WithTimeout(kind(server.connect(autocommit=False), KEY))

    two_clients(simulation, make, work=work, forgets=forgets)


PLAN = Plan(
    flaws=(
        Flaw(
            "no-row", Wrong.TWO_HOLDERS, NOTHING, "unique-index", {"row_exists": False}, {}
        ),
        Flaw(
            "forgotten", Wrong.NOBODY_ENTERS, NOTHING, "table-row",
            {"forgets": "A"}, {"forgets": "A", "cleaner": True},
        ),
    ),
    checks=tuple(
        Check({"row_exists": exists}, CRASH_OR_SWITCH, ONE_ENTERS) for exists in (False, True)
    ),
    clients=clients,
)  # fmt: skip
