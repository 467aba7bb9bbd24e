"""The scenarios of all lessons: one per flaw, in the order of the lessons.

Each has the clients, the faults that the scheduler may inject, and the resulting failure.  It also
names the lock that fixes the flaw, with the same clients, so that the schedule can be played on it.
"""

from __future__ import annotations

from functools import cache, partial

from course.lessons import Lesson
from course.lessons.lesson_01_setnx_expire import SetnxExpireLock
from course.lessons.lesson_03_setnx_getset import GetsetLock
from course.lessons.lesson_04_getset_busy_loop import BusyLoopLock
from course.lessons.lesson_05_lua_setnx_expire import LuaSetnxExpireLock
from course.lessons.lesson_06_set_nx_ex import SetNxExLock
from course.lessons.lesson_07_get_compare_del import GetCompareDelLock
from course.lessons.lesson_08_token_lua import TokenLuaLock
from course.lessons.lesson_09_watchdog import WatchdogLock
from course.simulator.history import MICROSECONDS, Wrong
from course.simulator.lesson_clients import (
    TTL,
    TtlRepair,
    lock_of,
    memcached_clients,
    production_clients,
    redis_clients,
    redlock_clients,
    refunds,
    row_clients,
    row_lock_clients,
)
from course.simulator.scenario import (
    CLOCK_JUMP,
    CRASH,
    EVICTION,
    FAIL_OVER,
    LATE_WRITER,
    LONG_PAUSE,
    LOST_MESSAGE,
    NOTHING,
    OVERTIME,
    PRODUCTION,
    SWITCHES,
    Scenario,
    scenario,
)
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY
from course.simulator.world import EPOCH

NOW = EPOCH / MICROSECONDS

setnx_expire = partial(redis_clients, make=lock_of(SetnxExpireLock, ttl=TTL))
ttl_repair = partial(redis_clients, make=lock_of(TtlRepair))
getset = partial(redis_clients, make=lock_of(GetsetLock, ttl=TTL))
busy_loop = partial(redis_clients, make=lock_of(BusyLoopLock, ttl=TTL))
scripted = partial(redis_clients, make=lock_of(LuaSetnxExpireLock, ttl=TTL))
set_nx_ex = partial(redis_clients, make=lock_of(SetNxExLock, ttl=TTL))
get_compare_del = partial(redis_clients, make=lock_of(GetCompareDelLock, ttl=TTL))
token_lua = partial(redis_clients, make=lock_of(TokenLuaLock, ttl=TTL))
watchdog = partial(redis_clients, make=lock_of(WatchdogLock, lease=TTL))


def _first_locks() -> list[Scenario]:
    a_dead_key = ("SETNX", KEY, "1")
    return [
        scenario(
            "setnx-expire", "crash", "The holder crashes between its two commands",
            partial(setnx_expire, names="AB", timeout=15.0, visitor=True),
            Wrong.NOBODY_ENTERS, CRASH, "setnx-ttl-repair",
            """A waiter also asks how long the key will live.  A key without an end can only be
            the work of a client that died between its two commands, so the waiter takes it.""",
            partial(ttl_repair, names="AB", timeout=15.0, visitor=True),
        ),
        scenario(
            "setnx-ttl-repair", "two-repairs", "Two waiters find the same dead key at once",
            partial(ttl_repair, names="AB", gaps=(0.0, 0.0), left_behind=a_dead_key),
            Wrong.TWO_HOLDERS, SWITCHES, "setnx-getset",
            """The value is the deadline, and a dead lock is taken with GETSET, which answers the
            old value.  Of all clients that find it, only one gets the old deadline back.""",
            partial(
                getset, names="AB", gaps=(0.0, 0.0), left_behind=("SETNX", KEY, str(NOW - 5))
            ),
        ),
        scenario(
            "setnx-ttl-repair", "hasty-repair",
            "A waiter repairs the key of a holder that is alive, between its two commands",
            partial(ttl_repair, names="AB", gaps=(0.0, 0.0)),
            Wrong.TWO_HOLDERS, SWITCHES, "lua-setnx-expire",
            """Key and expiry come in one script.  There is no moment at which a living holder's
            key has no end, and so nothing that could be mistaken for a dead one.""",
            partial(scripted, names="AB", gaps=(0.0, 0.0)),
        ),
        scenario(
            "setnx-ttl-repair", "point-in-time",
            "EXPIRE is given a point in time, where it takes a duration",
            partial(
                redis_clients, names="A", make=lock_of(TtlRepair, expire=NOW + TTL),
                visitor=True,
            ),
            Wrong.NOBODY_ENTERS,
            FaultModel(frozenset({Act.CRASH}), victims=("A",), most_faults=1),
            "lua-setnx-expire",
            """One place sets the expiry, from one number of seconds.  (A key that is to live for
            decades is not refused by Redis: check what you pass.)""",
            partial(scripted, names="A", visitor=True),
        ),
    ]  # fmt: skip


def _deadline_locks() -> list[Scenario]:
    expired = ("SETNX", KEY, str(NOW - 5))
    return [
        scenario(
            "setnx-getset", "fast-clock", "A client whose clock is fast steals a live lock",
            partial(getset, names="AB", skew={"B": 15.0}),
            Wrong.TWO_HOLDERS, NOTHING, "lua-setnx-expire",
            """The server keeps the expiry.  One clock decides, and no client's clock matters.""",
            partial(scripted, names="AB", skew={"B": 15.0}),
        ),
        scenario(
            "setnx-getset", "loser-moves", "The loser's GETSET moves the winner's deadline",
            partial(getset, names="AB", gaps=(0.0, 0.0), left_behind=expired),
            Wrong.MOVED, SWITCHES, "lua-setnx-expire",
            """A client that does not get the lock writes nothing.  The script changes nothing
            unless it takes the lock.""",
            partial(scripted, names="AB", gaps=(0.0, 0.0)),
        ),
        scenario(
            "setnx-getset", "no-owner", "A late holder reads another's deadline, and deletes it",
            partial(getset, names="AB", work=OVERTIME),
            Wrong.NOT_THEIRS, NOTHING, "get-compare-del",
            """The value is a token that only its owner knows.  A holder that is late finds
            another's token and leaves it alone.""",
            partial(get_compare_del, names="AB", work=OVERTIME),
        ),
        scenario(
            "getset-busy-loop", "fast-clock", "A client whose clock is fast steals a live lock",
            partial(busy_loop, names="AB", skew={"B": 15.0}),
            Wrong.TWO_HOLDERS, NOTHING, "lua-setnx-expire",
            """The server keeps the expiry.  One clock decides, and no client's clock matters.""",
            partial(scripted, names="AB", skew={"B": 15.0}),
        ),
        scenario(
            "getset-busy-loop", "missing-key", "The key goes away between GET and GETSET",
            partial(
                busy_loop, names="AB", gaps=(0.0, 0.0), work={"A": 2.0, "B": 0.0},
                left_behind=expired,
            ),
            Wrong.ORPHANED, SWITCHES, "lua-setnx-expire",
            """Checking and acquiring are one step on the server.""",
            partial(scripted, names="AB", gaps=(0.0, 0.0), work={"A": 2.0, "B": 0.0}),
        ),
    ]  # fmt: skip


def _expiring_locks() -> list[Scenario]:
    compare = """A token says whose lock it is.  A holder that is late finds another's token and
        leaves it alone.  (Two are still inside at once: that is lesson 8.)"""
    return [
        scenario(
            "lua-setnx-expire", "overtime", "The work outlasts the expiry, and DEL hits the next",
            partial(scripted, names="AB", work=OVERTIME),
            Wrong.NOT_THEIRS, NOTHING, "get-compare-del", compare,
            partial(get_compare_del, names="AB", work=OVERTIME),
        ),
        scenario(
            "set-nx-ex", "overtime", "The work outlasts the expiry, and DEL hits the next",
            partial(set_nx_ex, names="AB", work=OVERTIME),
            Wrong.NOT_THEIRS, NOTHING, "get-compare-del", compare,
            partial(get_compare_del, names="AB", work=OVERTIME),
        ),
        scenario(
            "get-compare-del", "between", "The key expires and is taken between GET and DEL",
            partial(get_compare_del, names="AB", timeout=20.0, work={"B": 8.0}),
            Wrong.NOT_THEIRS, LONG_PAUSE, "token-lua",
            """The server compares and deletes in one script.  Nothing comes between.""",
            partial(token_lua, names="AB", timeout=20.0, work={"B": 8.0}),
        ),
        scenario(
            "token-lua", "overtime", "The work outlasts the lease, and two are inside",
            partial(token_lua, names="AB", work=OVERTIME),
            Wrong.TWO_HOLDERS, NOTHING, "watchdog",
            """A watchdog renews the lease every third of it for as long as the holder lives, so
            the lease need not be longer than the work.""",
            partial(watchdog, names="AB", work=OVERTIME),
        ),
        scenario(
            "token-lua", "polling", "No waiter is woken: the first to poll wins",
            partial(token_lua, names="ABC", work={"A": 1.5}, gaps=(0.0, 0.1, 0.6)),
            Wrong.ORDER, NOTHING, PRODUCTION,
            """Waiters queue on the server.  The release hands the lock to the first of them and
            wakes only that one.""",
            partial(
                production_clients, names="ABC", work={"A": 1.5}, gaps=(0.0, 0.1, 0.6)
            ),
            fair=True,
        ),
    ]  # fmt: skip


def _leases() -> list[Scenario]:
    fence = """Every grant mints a larger fencing token, and the resource refuses a token smaller
        than the largest it has seen.  The paused holder still writes; it changes nothing."""
    return [
        scenario(
            "watchdog", "pause", "The holder's process is paused, not dead, past its lease",
            partial(watchdog, names="AB", writes=True),
            Wrong.STALE_WRITE, LONG_PAUSE, PRODUCTION, fence,
            partial(production_clients, work={}),
        ),
        scenario(
            "watchdog", "fail-over", "The primary fails over before the key was copied",
            partial(watchdog, names="AB", work={"A": 5.0}, gaps=(0.0, 1.0), replicated=True),
            Wrong.TWO_HOLDERS, FAIL_OVER, "redlock",
            """A majority of five independent servers must agree.  One of them may lose
            everything.""",
            partial(redlock_clients, work={"A": 5.0}, gap=1.0, writes=False),
        ),
        scenario(
            "watchdog", "lost-message", "The message that the lock is free is lost",
            partial(watchdog, names="AB"),
            Wrong.ASLEEP, LOST_MESSAGE, PRODUCTION,
            """The wake-up is not a message but an element of a list on the server, which stays
            until the waiter takes it.""",
            partial(production_clients, work={}),
            max_idle=2.0,
        ),
        scenario(
            "redlock", "pause", "The holder's process is paused after the majority agreed",
            partial(redlock_clients, work={}),
            Wrong.STALE_WRITE, LONG_PAUSE, PRODUCTION, fence,
            partial(production_clients, work={}, gaps=(0.0, 4.0)),
        ),
        scenario(
            "redlock", "clock-jump", "One server's clock jumps after the majority agreed",
            partial(redlock_clients, work=LATE_WRITER, cut_off=(4, 5)),
            Wrong.STALE_WRITE, CLOCK_JUMP, PRODUCTION, fence,
            partial(production_clients, work=LATE_WRITER, gaps=(0.0, 4.0)),
        ),
    ]  # fmt: skip


def _tables() -> list[Scenario]:
    by_connection = """A transaction holds the lock, and the database notices when the
        connection of a dead holder ends.  There is no guessing by age."""
    return [
        scenario(
            "table-row", "slow-holder", "The cleaner removes the row of a slow, living holder",
            partial(row_clients, work={"A": 20.0}, cleaner=True),
            Wrong.TWO_HOLDERS, NOTHING, "row-lock", by_connection,
            partial(row_lock_clients, work={"A": 20.0}, row_exists=True),
        ),
        scenario(
            "table-row", "no-cleaner", "Without a cleaner, the row of a crashed holder stays",
            partial(row_clients, work={}, cleaner=False, visitor=True),
            Wrong.NOBODY_ENTERS, CRASH, "row-lock", by_connection,
            partial(row_lock_clients, work={}, row_exists=True),
        ),
        scenario(
            "row-lock", "no-row", "The row does not exist yet, so nothing is locked",
            partial(row_lock_clients, work={}, row_exists=False),
            Wrong.TWO_HOLDERS, NOTHING, "unique-index",
            """The row is the result itself, inserted under a unique key.  The row that does not
            exist yet is exactly what only one of them can create.""",
            refunds,
        ),
        scenario(
            "row-lock", "forgotten", "A forgotten transaction holds the row",
            partial(row_lock_clients, work={}, row_exists=True, forgets="A"),
            Wrong.NOBODY_ENTERS, NOTHING, "table-row",
            """A lock that ends even if it is forgotten: the cleaner removes the row after 10 s.
            (It also removes a slow holder's row: choose the lesser evil.)""",
            partial(row_clients, work={}, cleaner=True, forgets="A"),
        ),
        scenario(
            "unique-index", "double-refund", "Two workers refund the same order at once",
            refunds, None, SWITCHES, PRODUCTION,
            """Nothing needs mending: the second one finds the refund recorded.  For work that no
            unique key can describe, take the production lock.""",
            partial(production_clients, work={}),
        ),
        scenario(
            "memcached-add", "eviction", "memcached needs the memory, and evicts the lock",
            memcached_clients,
            Wrong.TWO_HOLDERS, EVICTION, "table-row",
            """A table is not a cache: a row stays until a client deletes it.""",
            partial(row_clients, work={}, cleaner=False),
        ),
    ]  # fmt: skip


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios, in the order of the lessons."""
    return (
        *_first_locks(), *_deadline_locks(), *_expiring_locks(), *_leases(), *_tables(),
    )  # fmt: skip


def of(lesson: Lesson) -> list[Scenario]:
    """Return the scenarios of a lesson; the first shows its best-known flaw."""
    return [one for one in scenarios() if one.lesson is lesson]
