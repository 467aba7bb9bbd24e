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


def clients(
    simulation: Simulation, kind: Callable[..., Any], *, ttl: int | None = None, **options: Any
) -> None:
    """Add clients; `ttl` is what they pass as the life of the lock."""
    redis_clients(simulation, kind if ttl is None else partial(kind, ttl=ttl), **options)


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
            {"names": "A", "ttl": EPOCH // MICROSECONDS + TTL, "visitor": True},
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
)  # fmt: skip
