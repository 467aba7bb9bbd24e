"""What a lesson's `__init__.py` is made of: flaws, clients, faults, and checks of own locks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction, signature
from types import ModuleType
from typing import Any

from course.simulator import production
from course.simulator.history import MICROSECONDS, Event, Kind, Text, Wrong, _, listed
from course.simulator.redis_client import SimulatedRedis
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY, Run, Simulation
from course.simulator.world import EPOCH

PRODUCTION = "redis"
"""The production lock, as the name of a cure."""

OWN = "own"
"""The lock of the lesson's `cure.py`, as the name of a cure."""


@dataclass(frozen=True, eq=False)
class Flaw:
    """A flaw, and how to trigger it.

    `options` are those of the lesson's clients; the clients of the lock that fixes the flaw get
    `cure_options`, or the same.  `wrong` is None if nothing can go wrong.  `cure` is the name of a
    lesson, `PRODUCTION` or `OWN`.  `breaks` is the schedule that triggers the flaw, in words; empty
    if the clients need none.
    """

    slug: str
    wrong: Wrong | None
    faults: FaultModel
    cure: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cure_options: Mapping[str, Any] | None = None
    breaks: str = ""
    fair: bool = False
    max_idle: float | None = None


@dataclass(frozen=True, eq=False)
class Check:
    """What is tried with a learner's lock: clients, the faults, and the failures that count.

    `most` bounds the deviations of a schedule, `limit` the schedules.  An option `ttl` is the lease
    that the lock is given; a lock that takes none has the course's, and is not tried with others.
    """

    options: Mapping[str, Any]
    faults: FaultModel
    wrongs: tuple[Wrong, ...]
    most: int = 2
    limit: int = 600


TTL = 10
"""Every lease of the course, in seconds, unless a check gives another one."""

# -- clients; each set-up takes the `kind` of lock and the options of flaws and checks


def add_clients(
    simulation: Simulation,
    make: Callable[[], Any],
    *,
    names: str = "AB",
    work: Mapping[str, float] | None = None,
    gaps: Sequence[float] = (0.0, 0.1, 0.2),
    skew: Mapping[str, float] | None = None,
    visitor: bool = False,
    heir: float | None = None,
    ttl: int = TTL,
    **options: Any,
) -> None:
    """Add clients of any kind of server, A first, then B, …

    `work` is in seconds, `gaps` are the arrival times, `skew` says how far a clock is ahead.  With
    `visitor`, one more client comes a day later; with `heir` one that comes so many seconds after
    the start, when a lease of `ttl` seconds is over.
    """
    for name, gap in zip(names, gaps, strict=False):
        seconds, ahead = (work or {}).get(name, 2.0), (skew or {}).get(name, 0.0)
        simulation.client(name, make, work=seconds, after=gap, skew=ahead, **options)
    if visitor:
        simulation.visitor(make)
    if heir is not None:
        simulation.heir(make, lease=ttl, after=heir)


def redis_clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    settings: Mapping[str, Any] | None = None,
    ttl: int = TTL,
    left_behind: tuple[str, ...] = (),
    replicated: bool = False,
    **options: Any,
) -> None:
    """Add clients of one server, which make the lock with `settings`, or with a lease of `ttl`.

    `left_behind` is a command that ran before.
    """
    server = RedisServer(simulation.world, lock_key=KEY, replicated=replicated)
    if left_behind:
        server.model.execute([word.encode() for word in left_behind])
        simulation.given((Text(_("keeps, from before:")), *left_behind), server=server.name)

    def make() -> Any:
        return kind(SimulatedRedis(server), KEY, **(settings or lease_argument(kind, ttl)))

    add_clients(simulation, make, ttl=ttl, **options)


LEASE_ARGUMENTS = ("ttl", "lease")


def lease_argument(kind: Callable[..., Any], seconds: int) -> dict[str, int]:
    """Return the argument that gives a lock its lease; empty if it takes none."""
    made_of = kind if isinstance(kind, type) else getattr(kind, "lock", kind)
    try:
        names = signature(made_of).parameters
    except (TypeError, ValueError):  # a class without a signature
        return {}
    return next(({name: seconds} for name in LEASE_ARGUMENTS if name in names), {})


def production_clients(
    simulation: Simulation,
    *,
    names: str = "AB",
    work: Mapping[str, float] | None = None,
    gaps: Sequence[float] = (0.0, 0.1, 0.2),
    writes: bool = True,  # they always write, with their token
) -> None:
    """Add clients of the production lock."""
    server = RedisServer(simulation.world, lock_key=production.LOCK_KEY, replicated=True)
    for name, gap in zip(names, gaps, strict=False):
        seconds = (work or {}).get(name, 2.0)
        client = production.Client(simulation, server, name, seconds, after=gap)
        client.start(client.run)


class Shop:
    """What the clients of a lesson about the shop, which need no lock, tell its buyers."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.answers: dict[str, Any] = {}

    def start(self, name: str, run: Callable[[], Any], at: float = 0.0) -> None:
        """Add a client whose return value is its answer to the buyer."""

        def tell() -> None:
            self.answers[name] = run()
            self.simulation.note(name, Text(_("has finished: %s"), repr(self.answers[name])))

        self.simulation.start(name, tell, after=at).begin("run")

    def expect(self, holds: bool, wrong: Wrong, why: str) -> None:
        """Report a failure unless it holds."""
        if not holds:
            self.simulation.monitor.report(wrong, why)


EXPIRED = ("SETNX", KEY, str(EPOCH / MICROSECONDS - 5))
"""A key that is left behind, with the end of its lease as its value."""

TOGETHER = {"gaps": (0.0, 0.0)}
FAST_B = {"skew": {"B": 15.0}}
# Work that outlasts the lease of 10 s, and a write that comes after the next holder's.
OVERTIME = {"A": 12.0, "B": 4.0}
LATE_WRITER = {"A": 6.0, "B": 1.0}

ONE_ENTERS = (Wrong.TWO_HOLDERS, Wrong.NOBODY_ENTERS)
KEEPS_OUT = (Wrong.NOT_THEIRS, Wrong.TWO_HOLDERS)

TRUSTED = TTL - 0.5
"""Seconds for which a holder certainly holds a lease of the course."""

LATE = {
    "names": "ABC",
    "gaps": (0.0, 9.5, 13.5),
    "work": {"A": 14.0, "B": 8.0},
    "trusts": TRUSTED,
}

OTHER_TTLS = (4, 25)
"""Further leases, in seconds, which a lock that takes one must use."""

ROUNDING = 1.5
"""Seconds by which a lease may end late: some round it up to the next whole second."""


def _keeps(ttl: int) -> Check:
    """Return the check that nobody else enters before a lease is over."""
    options = {"ttl": ttl, "work": {"A": ttl - 0.5}, "gaps": (0.0, ttl - 0.7)}
    return Check(options, Faults.NOTHING, (Wrong.TWO_HOLDERS,))


def _ends(ttl: int, **options: Any) -> Check:
    """Return the check that a dead holder's lock is free when its lease is over.

    A works for no time, so that its lease begins when the run does, wherever A dies.
    """
    alone = {"names": "A", "work": {"A": 0.0}, "ttl": ttl, "heir": ttl + ROUNDING}
    return Check({**alone, **options}, Faults.CRASH, (Wrong.OUTLIVED,))


class Faults:
    """The faults of several lessons."""

    NOTHING = FaultModel(frozenset())
    SWITCHES = FaultModel(frozenset({Act.SWITCH}))
    CRASH = FaultModel(frozenset({Act.CRASH}), victims=("A",), most_faults=1)
    CRASH_OR_SWITCH = FaultModel(frozenset({Act.CRASH, Act.SWITCH}), victims=("A",), most_faults=1)
    LONG_PAUSE = FaultModel(frozenset({Act.PAUSE}), seconds=(15.0,), victims=("A",), most_faults=1)
    LOST = FaultModel(frozenset({Act.LOSE_REQUEST, Act.LOSE_REPLY}), most_faults=1)


class Checks:
    """The checks of several lessons."""

    # B dies while A, which held the lock before, lives on: a watchdog renews its own lock only.
    RENEWS_ITS_OWN = Check(
        {"gaps": (0.0, 1.0), "work": {"A": 0.0, "B": 0.0}, "lingers": "A", "heir": TTL + 2.5},
        FaultModel(frozenset({Act.CRASH}), victims=("B",), most_faults=1),
        (Wrong.OUTLIVED,),
    )

    AT_ONCE = Check(TOGETHER, Faults.SWITCHES, ONE_ENTERS, most=3)
    SURVIVES_A_CRASH = Check({"timeout": 15.0, "visitor": True}, Faults.CRASH_OR_SWITCH, ONE_ENTERS)
    FAST_CLOCK = Check(FAST_B, Faults.NOTHING, (Wrong.TWO_HOLDERS, Wrong.MOVED))
    # A's lease ends while it works, and B has the lock when A lets go.  C must not get in then.
    # B and C come no earlier than they need, because a client that asks all the time takes long.
    LATE_RELEASE = Check(LATE, Faults.NOTHING, KEEPS_OUT)
    # A stands still between any two of its commands while B gets the lock.
    PAUSED_RELEASE = Check(
        {**LATE, "work": {"B": 9.0}, "gaps": (0.0, 9.5, 16.0)}, Faults.LONG_PAUSE, KEEPS_OUT
    )
    OVERTIME_ALONE = Check(
        {"work": OVERTIME}, Faults.NOTHING, (Wrong.TWO_HOLDERS, Wrong.NOT_THEIRS)
    )
    # A crashes while it holds the lock; B and C come when its lease has just ended.
    RACE = Check(
        {"names": "ABC", "gaps": (0.0, 11.0, 11.0), "work": {"C": 0.0}},
        Faults.CRASH_OR_SWITCH,
        (Wrong.TWO_HOLDERS, Wrong.MOVED, Wrong.ORPHANED),
    )


LEASES = (
    *(check for ttl in (TTL, *OTHER_TTLS) for check in (_keeps(ttl), _ends(ttl))),
    _ends(TTL, skew={"A": 15.0}),
)
"""The lease that the lock is given is its lease, neither shorter nor longer, whatever the clocks of
the clients show."""

LOCK_DUTIES = (Checks.AT_ONCE, Checks.SURVIVES_A_CRASH, *LEASES)
"""What each lock of one server owes, whatever its lesson is about."""


# -- what is not right in a run that nothing disturbs

# Waiters ask once per second; a lock that is free for longer was not released.
PROMPT = 2.5


Reason = tuple[str, str]
"""What is not right, which is translated, and the details; both empty if nothing."""


def _silent(events: list[Event], entered: Mapping[str, int]) -> Reason | None:
    """Return that a client entered and had sent no command; None if none did."""
    for who, at in entered.items():
        if not any(one.who == who and one.server and one.at <= at for one in events):
            return _("a client entered and had not sent a single command"), Text(
                _("%s is a process of its own and shares nothing with others but the server"), who
            )
    return None


def each_enters(run: Run) -> Reason:
    """Return why a lock that nothing disturbs does not let A and B in."""
    events = run.history
    entered = {event.who: event.at for event in events if event.kind is Kind.ENTER}
    if silent := _silent(events, entered):
        return silent
    missing = sorted({"A", "B"} - set(entered))
    if missing:
        return _("a client never got the lock, though nothing disturbed it"), listed(missing)
    left = [event.at for event in events if event.kind is Kind.LEAVE]
    late = (max(entered.values()) - min(left, default=0)) / MICROSECONDS
    if late > PROMPT:
        return _("the lock was not released"), Text(
            _("the next client entered %s s late"), f"{late:.0f}"
        )
    if any(str(event.answer).startswith("refused") for event in events):
        wrong = _("the write of a holder that nothing disturbed was refused")
        return wrong, Text(_("tokens must grow"))
    return "", ""


def one_enters(run: Run) -> Reason:
    """Return why not exactly one of two clients did the work."""
    entered = {event.who: event.at for event in run.history if event.kind is Kind.ENTER}
    if silent := _silent(run.history, entered):
        return silent
    if len(entered) != 1:
        return _("the work was not done once"), Text(_("%s of 2 clients did it"), len(entered))
    return "", ""


def nothing_wrong(run: Run) -> Reason:
    """Return what went wrong in a run first."""
    return next(((one.wrong, one.why) for one in run.violations), ("", ""))


# -- the lessons about a stock

STOCK_TABLES = {"item": ("id", "available"), "orders": ("number", "buyer")}
"""Their tables, by name: the columns, the primary key first."""

SOLD, SOLD_OUT, UNKNOWN = "sold", "sold out", "unknown"
"""Answers to a buyer; any other one says that nothing was sold."""

ERROR_PAGE = "an error page"
"""What a buyer sees if the connection's error ends `buy`."""


@dataclass(frozen=True, slots=True)
class Rush:
    """What a rush on a real database does besides sending buyers (`course/rush.py`).

    Attributes:
        twice: every second buyer sends the request twice.
        loses: some connections are lost at COMMIT, before or after it is executed.
    """

    twice: bool = False
    loses: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """What a lesson's `__init__.py` says.

    `clients` sets up a run.  `solution` is the lesson whose lock solves the exercise, or `OWN`.
    `methods` are what makes a class of a file its lock; `quiet` the options of the runs that no
    fault disturbs; `judge` says why such a run is not right.  With `rush`, a file in which the
    simulator finds no failure is also tried on a real database.
    """

    flaws: tuple[Flaw, ...]
    checks: tuple[Check, ...]
    clients: Callable[..., None] = redis_clients
    judge: Callable[[Run], Reason] = each_enters
    solution: str = OWN
    methods: tuple[str, ...] = ("acquire", "release")
    quiet: tuple[Mapping[str, Any], ...] = ({},)
    rush: Rush | None = None

    @property
    def has_lock(self) -> bool:
        """Whether the lesson is about a lock, and not about another part of a shop."""
        return "acquire" in self.methods

    def lock_in(self, module: ModuleType) -> type | None:
        """Return the lock that a module defines: its last class with the methods."""
        classes = [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and value.__module__ == module.__name__
            and all(_is_plain(getattr(value, name, None)) for name in self.methods)
        ]
        return classes[-1] if classes else None


def _is_plain(method: object) -> bool:
    return callable(method) and not iscoroutinefunction(method)
