"""Lesson 3: every client trusts its own clock, and the value has no owner."""

from course.plan import (
    AT_ONCE,
    EXPIRED,
    FAST_CLOCK,
    LATE_RELEASE,
    NOTHING,
    OVERTIME,
    RACE,
    SWITCHES,
    Flaw,
    Plan,
)
from course.simulator.history import Wrong

PLAN = Plan(
    flaws=(
        Flaw(
            "fast-clock", Wrong.TWO_HOLDERS, NOTHING, "lua-setnx-expire", {"skew": {"B": 15.0}}
        ),
        Flaw(
            "loser-moves", Wrong.MOVED, SWITCHES, "lua-setnx-expire",
            {"gaps": (0.0, 0.0), "left_behind": EXPIRED}, {"gaps": (0.0, 0.0)},
            breaks="before command 3 of A's acquire: switch B",
        ),
        Flaw("no-owner", Wrong.NOT_THEIRS, NOTHING, "get-compare-del", {"work": OVERTIME}),
    ),
    checks=(FAST_CLOCK, RACE, LATE_RELEASE, AT_ONCE),
    solution="token-lua",
)  # fmt: skip
