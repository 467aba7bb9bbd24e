"""The clients of lessons, the faults, and the checks of a learner's lock, that several share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course.simulator import production
from course.simulator.history import MICROSECONDS, Event, Kind, Wrong
from course.simulator.redis_client import SimulatedRedis
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY, PlainLock, Run, Simulation


@dataclass(frozen=True, eq=False)
class Check:
    """What is tried with a learner's lock: clients, the faults, and the failures that count.

    `most` bounds the deviations of a schedule, `limit` the schedules.
    """

    options: Mapping[str, Any]
    faults: FaultModel
    wrongs: tuple[Wrong, ...]
    most: int = 2
    limit: int = 600


TTL = 10  # every lease of the course, in seconds


def redis_clients(
    simulation: Simulation,
    *,
    kind: Callable[..., Any],
    names: str = "AB",
    work: Mapping[str, float] | None = None,
    gaps: Sequence[float] = (0.0, 0.1, 0.2),
    skew: Mapping[str, float] | None = None,
    writes: bool = False,
    timeout: float = 30.0,
    left_behind: tuple[str, ...] = (),
    visitor: bool = False,
    replicated: bool = False,
) -> None:
    """Add clients of one server, A first, then B, …

    `work` is in seconds, `gaps` are the arrival times, `skew` says how far a clock is ahead;
    `left_behind` is a command that ran before; with `visitor`, one more client comes a day later.
    """
    server = RedisServer(simulation.world, lock_key=KEY, replicated=replicated)
    if left_behind:
        server.model.execute([word.encode() for word in left_behind])
        simulation.given(("keeps, from before:", *left_behind), server=server.name)
    for place, name in enumerate(names):
        simulation.client(
            name,
            lambda: kind(SimulatedRedis(server), KEY),
            timeout=timeout,
            work=(work or {}).get(name, 2.0),
            after=gaps[place],
            skew=(skew or {}).get(name, 0.0),
            writes=writes,
        )
    if visitor:
        simulation.visitor(lambda: kind(SimulatedRedis(server), KEY))


def two_clients(
    simulation: Simulation,
    make: Callable[[], PlainLock],
    *,
    work: Mapping[str, float] | None = None,
    gap: float = 0.1,
    **options: Any,
) -> None:
    """Add clients A and B of any kind of server; B comes `gap` seconds later."""
    for place, name in enumerate("AB"):
        seconds = (work or {}).get(name, 2.0)
        simulation.client(name, make, work=seconds, after=place * gap, **options)


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
    for place, name in enumerate(names):
        holder = production.Holder(simulation, name, (work or {}).get(name, 2.0))
        simulation.start(name, production.Client(server, holder).run, after=gaps[place])


NOTHING = FaultModel(frozenset())
SWITCHES = FaultModel(frozenset({Act.SWITCH}))
CRASH = FaultModel(frozenset({Act.CRASH}), victims=("A",), most_faults=1)
CRASH_OR_SWITCH = FaultModel(frozenset({Act.CRASH, Act.SWITCH}), victims=("A",), most_faults=1)
LONG_PAUSE = FaultModel(frozenset({Act.PAUSE}), seconds=(15.0,), victims=("A",), most_faults=1)
LOST = FaultModel(frozenset({Act.LOSE_REQUEST, Act.LOSE_REPLY}), most_faults=1)

# Work that outlasts the lease of 10 s, and a write that comes after the next holder's.
OVERTIME = {"A": 12.0, "B": 4.0}
LATE_WRITER = {"A": 6.0, "B": 1.0}

ONE_ENTERS = (Wrong.TWO_HOLDERS, Wrong.NOBODY_ENTERS)
AT_ONCE = Check({"gaps": (0.0, 0.0)}, SWITCHES, ONE_ENTERS, most=3)
SURVIVES_A_CRASH = Check({"timeout": 15.0, "visitor": True}, CRASH_OR_SWITCH, ONE_ENTERS)
FAST_CLOCK = Check({"skew": {"B": 15.0}}, NOTHING, (Wrong.TWO_HOLDERS, Wrong.MOVED))
LATE_RELEASE = Check({"work": OVERTIME}, NOTHING, (Wrong.NOT_THEIRS,))
OVERTIME_ALONE = Check({"work": OVERTIME}, NOTHING, (Wrong.TWO_HOLDERS, Wrong.NOT_THEIRS))
# A crashes while it holds the lock; B and C come when its lease has just ended.
RACE = Check(
    {"names": "ABC", "gaps": (0.0, 11.0, 11.0), "work": {"C": 0.0}},
    CRASH_OR_SWITCH,
    (Wrong.TWO_HOLDERS, Wrong.MOVED, Wrong.ORPHANED),
)

# Waiters ask once per second; a lock that is free for longer was not released.
PROMPT = 2.5


def _silent(events: list[Event], entered: Mapping[str, int]) -> str:
    """Return that a client entered and had sent no command; empty if none did."""
    for who, at in entered.items():
        if not any(one.who == who and one.server and one.at <= at for one in events):
            return (
                f"{who} entered and had not sent a single command: clients are processes of their "
                "own, often on other machines, and share nothing but the server"
            )
    return ""


def each_enters(run: Run) -> str:
    """Return why a lock that nothing disturbs does not let A and B in; empty if it does."""
    events = run.history
    entered = {event.who: event.at for event in events if event.kind is Kind.ENTER}
    if silent := _silent(events, entered):
        return silent
    missing = sorted({"A", "B"} - set(entered))
    if missing:
        return f"{' and '.join(missing)} never got the lock, though nothing disturbed it"
    left = [event.at for event in events if event.kind is Kind.LEAVE]
    late = (max(entered.values()) - min(left, default=0)) / MICROSECONDS
    if late > PROMPT:
        return f"the lock was not released: the next client entered {late:.0f} s late"
    if any(str(event.answer).startswith("refused") for event in events):
        return "a holder that nothing disturbed had its write refused: tokens must grow"
    return ""


def one_enters(run: Run) -> str:
    """Return why not exactly one of two clients did the work; empty if so."""
    entered = {event.who: event.at for event in run.history if event.kind is Kind.ENTER}
    wrong = "" if len(entered) == 1 else f"{len(entered)} of 2 clients did the work"
    return _silent(run.history, entered) or wrong


def nothing_wrong(run: Run) -> str:
    """Return what went wrong in a run; empty if nothing."""
    return "; ".join(f"{one.wrong}: {one.why}" for one in run.violations)
