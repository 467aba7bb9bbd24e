"""What the simulator tries with a learner's lock: set-ups, faults, and the failures that count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from course.exercises import shop_model
from course.simulator.history import MICROSECONDS, Event, Kind, Wrong
from course.simulator.lesson_clients import (
    TtlRepair,
    memcached_clients,
    redis_clients,
    redlock_clients,
    refunds,
    row_clients,
    row_lock_clients,
)
from course.simulator.scenario import (
    CLOCK_JUMP,
    LATE_WRITER,
    LONG_PAUSE,
    NOTHING,
    OVERTIME,
    SWITCHES,
)
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY, Setup, Simulation

LockKind = Callable[..., Any]
"""The class of the learner's file."""

CRASH_OR_SWITCH = FaultModel(frozenset({Act.CRASH, Act.SWITCH}), victims=("A",), most_faults=1)

LOST = FaultModel(frozenset(shop_model.LOST), most_faults=1)

# Waiters ask once per second; a lock that is free for longer was not released.
PROMPT = 2.5


@dataclass(frozen=True, slots=True)
class Check:
    """A set-up, the faults that may hit it, and the failures that count.

    `most` bounds the deviations of a schedule, `limit` the schedules.
    """

    setup: Callable[[LockKind], Setup]
    faults: FaultModel
    wrongs: tuple[Wrong, ...]
    most: int = 2
    limit: int = 600


def on_redis(**options: Any) -> Callable[[LockKind], Setup]:
    """Set up clients of one Redis server."""

    def setup(kind: LockKind) -> Setup:
        if hasattr(kind, "lock"):
            kind = partial(TtlRepair, kind=kind)
        return partial(
            redis_clients,
            make=lambda server: kind(Simulation.redis_client(server), KEY),
            **options,
        )

    return setup


def _with(clients: Callable[..., None], **options: Any) -> Callable[[LockKind], Setup]:
    return lambda kind: partial(clients, kind=kind, **options)


ONE_ENTERS = (Wrong.TWO_HOLDERS, Wrong.NOBODY_ENTERS)
AT_ONCE = Check(on_redis(names="AB", gaps=(0.0, 0.0)), SWITCHES, ONE_ENTERS, most=3)
SURVIVES_A_CRASH = Check(
    on_redis(names="AB", timeout=15.0, visitor=True), CRASH_OR_SWITCH, ONE_ENTERS
)
FAST_CLOCK = Check(
    on_redis(names="AB", skew={"B": 15.0}), NOTHING, (Wrong.TWO_HOLDERS, Wrong.MOVED)
)
# A crashes while it holds the lock; B and C come when its lease has just ended.
AT_A_DEAD_LOCK = on_redis(names="ABC", gaps=(0.0, 11.0, 11.0), work={"C": 0.0})
RACE = Check(AT_A_DEAD_LOCK, CRASH_OR_SWITCH, (Wrong.TWO_HOLDERS, Wrong.MOVED, Wrong.ORPHANED))
LATE_RELEASE = Check(on_redis(names="AB", work=OVERTIME), NOTHING, (Wrong.NOT_THEIRS,))
OVERTIME_ALONE = Check(
    on_redis(names="AB", work=OVERTIME), NOTHING, (Wrong.TWO_HOLDERS, Wrong.NOT_THEIRS)
)

CHECKS: dict[str, tuple[Check, ...]] = {
    "setnx-expire": (SURVIVES_A_CRASH, AT_ONCE),
    "setnx-ttl-repair": (
        Check(
            on_redis(names="AB", gaps=(0.0, 0.0), left_behind=("SETNX", KEY, "1")),
            SWITCHES,
            ONE_ENTERS,
        ),
        AT_ONCE,
        SURVIVES_A_CRASH,
    ),
    "setnx-getset": (FAST_CLOCK, RACE, LATE_RELEASE, AT_ONCE),
    "getset-busy-loop": (FAST_CLOCK, RACE, AT_ONCE),
    "lua-setnx-expire": (LATE_RELEASE, AT_ONCE),
    "set-nx-ex": (LATE_RELEASE, AT_ONCE),
    "get-compare-del": (
        Check(on_redis(names="AB", timeout=20.0, work={"B": 8.0}), LONG_PAUSE, (Wrong.NOT_THEIRS,)),
        AT_ONCE,
    ),
    "token-lua": (OVERTIME_ALONE, SURVIVES_A_CRASH, AT_ONCE),
    "watchdog": (
        OVERTIME_ALONE,
        SURVIVES_A_CRASH,
        Check(on_redis(names="AB", writes=True), LONG_PAUSE, (Wrong.STALE_WRITE,)),
        AT_ONCE,
    ),
    "redlock": (
        Check(_with(redlock_clients, work={}), LONG_PAUSE, (Wrong.STALE_WRITE,), limit=60),
        Check(
            _with(redlock_clients, work=LATE_WRITER, cut_off=(4, 5)),
            CLOCK_JUMP,
            (Wrong.STALE_WRITE,),
            limit=60,
        ),
    ),
    "table-row": (
        Check(_with(row_clients, work={"A": 20.0}, cleaner=True), NOTHING, ONE_ENTERS),
        Check(_with(row_clients, work={}, cleaner=False), CRASH_OR_SWITCH, ONE_ENTERS),
    ),
    "row-lock": tuple(
        Check(_with(row_lock_clients, work={}, row_exists=exists), CRASH_OR_SWITCH, ONE_ENTERS)
        for exists in (False, True)
    ),
    "unique-index": (Check(_with(refunds), SWITCHES, (Wrong.TWO_HOLDERS,)),),
    "memcached-add": (Check(_with(memcached_clients), SWITCHES, (Wrong.TWO_HOLDERS,)),),
    "lost-commit": (Check(_with(shop_model.lost_commit), LOST, tuple(Wrong)),),
    "retry-without-key": (Check(_with(shop_model.retry), LOST, tuple(Wrong)),),
    "outbox-too-early": (Check(_with(shop_model.outbox), CRASH_OR_SWITCH, tuple(Wrong)),),
    "oversold-cart": (
        Check(_with(shop_model.cart), SWITCHES, (Wrong.OVERSOLD,)),
        Check(_with(shop_model.cart), SWITCHES, tuple(Wrong), most=3),
    ),
}
"""By lesson.  The first check is the flaw that the chapter shows first."""

QUIET: dict[str, Callable[[LockKind], Setup]] = {
    "watchdog": on_redis(names="AB", writes=True),
    "redlock": _with(redlock_clients, work={}, gap=0.1),
    "table-row": _with(row_clients, work={}, cleaner=False),
    "row-lock": _with(row_lock_clients, work={}, row_exists=True),
    "unique-index": _with(refunds),
    "memcached-add": _with(memcached_clients),
    "lost-commit": _with(shop_model.lost_commit),
    "retry-without-key": _with(shop_model.retry),
    "outbox-too-early": _with(shop_model.outbox),
    "oversold-cart": _with(shop_model.cart),
}
"""By lesson: two clients that nothing disturbs; the other lessons use `ANYWHERE`."""

ANYWHERE = on_redis(names="AB")


def not_working(history: list[Event], *, once: bool) -> str:
    """Return why a lock that nothing disturbs does not do its work; empty if it does.

    With `once`, exactly one of the clients must enter, otherwise each of them.
    """
    entered = {event.who: event.at for event in history if event.kind is Kind.ENTER}
    left = [event.at for event in history if event.kind is Kind.LEAVE]
    if once:
        return "" if len(entered) == 1 else f"{len(entered)} of 2 clients did the work"
    missing = sorted({"A", "B"} - set(entered))
    if missing:
        return f"{' and '.join(missing)} never got the lock, though nothing disturbed it"
    late = max(entered.values()) - min(left, default=0)
    if late > PROMPT * MICROSECONDS:
        return (
            f"the lock was not released: the next client entered {late / MICROSECONDS:.0f} s late"
        )
    if any(str(event.answer).startswith("refused") for event in history):
        return "a holder that nothing disturbed had its write refused: tokens must grow"
    return ""
