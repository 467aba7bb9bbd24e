"""Lesson 1: the holder dies between its two commands."""

from functools import partial

from course.clients import AT_ONCE, CRASH, SURVIVES_A_CRASH, each_enters, redis_clients
from course.lesson import Flaw, Plan
from course.lessons.lesson_01_setnx_expire.lock import SetnxExpireLock
from course.simulator.history import Wrong

PLAN = Plan(
    partial(redis_clients, kind=SetnxExpireLock),
    flaws=(
        Flaw(
            "crash", Wrong.NOBODY_ENTERS, CRASH, "setnx-ttl-repair",
            {"timeout": 15.0, "visitor": True},
            breaks="before command 2 of A's acquire: crash",
        ),
    ),
    checks=(SURVIVES_A_CRASH, AT_ONCE),
    judge=each_enters,
    solution="set-nx-ex",
)  # fmt: skip
