"""Lesson 2: two waiters repair one key, and repair the key of a holder that lives."""

from collections.abc import Callable
from functools import partial
from typing import Any

from course.plan import (
    AT_ONCE,
    CRASH,
    EXPIRED,
    ONE_ENTERS,
    SURVIVES_A_CRASH,
    SWITCHES,
    TTL,
    Check,
    Flaw,
    Plan,
    redis_clients,
)
from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.simulation import KEY, Simulation
from course.simulator.world import EPOCH

DEAD_KEY = ("SETNX", KEY, "1")


class OneName:
    """A `kind` of lock with this lesson's methods, with those of the other lessons."""

    def __init__(
        self, client: object, name: str, *, expire: float, kind: Callable[..., Any]
    ) -> None:
        self._locks = kind(client)
        self._name = name
        self._expire = round(expire)

    def acquire(self, timeout: float = 0.0) -> Any:
        """Lock."""
        return self._locks.lock(self._name, timeout, self._expire, wait_interval=1.0)

    def release(self) -> None:
        """Unlock."""
        self._locks.unlock(self._name)


def clients(
    simulation: Simulation, kind: Callable[..., Any], *, expire: float = TTL, **options: Any
) -> None:
    """Add clients; `expire` is what they pass as the lease."""
    if hasattr(kind, "lock"):  # a learner may have written `acquire` and `release`
        kind = partial(OneName, kind=kind, expire=expire)
    redis_clients(simulation, kind, **options)


PLAN = Plan(
    flaws=(
        Flaw(
            "two-repairs", Wrong.TWO_HOLDERS, SWITCHES, "setnx-getset",
            {"gaps": (0.0, 0.0), "left_behind": DEAD_KEY},
            {"gaps": (0.0, 0.0), "left_behind": EXPIRED},
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw(
            "hasty-repair", Wrong.TWO_HOLDERS, SWITCHES, "lua-setnx-expire", {"gaps": (0.0, 0.0)},
            breaks="before command 2 of A's acquire: switch B",
        ),
        Flaw(
            "point-in-time", Wrong.NOBODY_ENTERS, CRASH, "lua-setnx-expire",
            {"names": "A", "expire": EPOCH / MICROSECONDS + TTL, "visitor": True},
            {"names": "A", "visitor": True},
            breaks="before command 1 of A's release: crash",
        ),
    ),
    checks=(
        Check({"gaps": (0.0, 0.0), "left_behind": DEAD_KEY}, SWITCHES, ONE_ENTERS),
        AT_ONCE,
        SURVIVES_A_CRASH,
    ),
    clients=clients,
    methods=("lock", "unlock"),
)  # fmt: skip
