"""Search for schedules that break a lock: all of them, or random ones; and their shrinking.

`search` tries every schedule, those with the fewest deviations first, so its finding is also the
simplest; it is deterministic.  The bound on deviations is the bound on preemptions of
M. Musuvathi and S. Qadeer, "Iterative context bounding" (PLDI 2007): most concurrency bugs need
very few.

`explore` draws random schedules for the production locks, with crashes, pauses and lost replies.
One seed determines a schedule completely: the clients, their times, the order of steps and the
faults.  So the seed alone repeats a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from course.simulator import production
from course.simulator.history import OF_THE_SHOP, Wrong
from course.simulator.monitor import Rules
from course.simulator.schedule import FAULTS, Act, FaultModel, RandomScheduler, Schedule
from course.simulator.searched_clients import MAX_IDLE, MAX_IDLE_AFTER_FAULT, clients
from course.simulator.simulation import Experiment, Run, run_in, run_schedule
from course.simulator.virtual import inside_simulation
from course.simulator.world import World

# Further schedules to try after the first failure, for a shorter history.
TRIES_AFTER_FAILURE = 60


@dataclass(frozen=True, slots=True)
class Found:
    """A failing schedule, its run, and how many schedules were tried before it."""

    schedule: Schedule
    run: Run
    tried: int


class NotFound(Exception):
    """Every schedule within the bound was tried, and none failed; `tried` counts them."""

    def __init__(self, what: str, tried: int) -> None:
        super().__init__(f"{what} did not happen in {tried} schedules")
        self.tried = tried


def search(
    what: Experiment, fault_model: FaultModel, *wrongs: Wrong, most: int = 3, limit: int = 1_000_000
) -> Found:
    """Find the shortest failing history with the fewest deviations, at most `most`.

    Any of `wrongs` is a failure.  Raises `NotFound` if there is none, or none in the first `limit`
    schedules.
    """
    tried = 0
    level: list[Schedule] = [()]
    for _ in range(most + 1):
        next_level: list[Schedule] = []
        best: Found | None = None
        last_try = 0
        for schedule in level:
            if (best is not None and tried >= last_try) or tried >= limit:
                break
            run = run_schedule(what, schedule)
            tried += 1
            if any(run.has(wrong) for wrong in wrongs):
                if best is None:
                    last_try = tried + TRIES_AFTER_FAILURE
                if best is None or len(run.history) < len(best.run.history):
                    best = Found(schedule, run, tried)
            elif best is None:
                next_level += _extended(schedule, run, fault_model)
        if best is not None:
            return best
        level = next_level
    raise NotFound(" or ".join(wrongs), tried)


def _extended(schedule: Schedule, run: Run, fault_model: FaultModel) -> list[Schedule]:
    faults = sum(deviation.act in FAULTS for deviation in schedule)
    return [
        (*schedule, deviation)
        for step in run.asked
        for deviation in fault_model.options(step)
        if deviation.act is Act.SWITCH or faults < fault_model.most_faults
    ]


def shrink(
    what: Experiment, schedule: Schedule, fails: Callable[[Run], bool]
) -> tuple[Schedule, Run]:
    """Remove deviations as long as the run still fails.

    The result fails, and would not fail without any one of its deviations.  Raises `ValueError` if
    the given schedule does not fail.
    """
    run = run_schedule(what, schedule)
    if not fails(run):
        raise ValueError("the schedule does not fail, so it cannot be shrunk")
    size = max(1, len(schedule) // 2)
    while True:
        for start in range(0, len(schedule), size):
            shorter = schedule[:start] + schedule[start + size :]
            shorter_run = run_schedule(what, shorter)
            if fails(shorter_run):
                schedule, run = shorter, shorter_run
                break
        else:
            if size == 1:
                return schedule, run
            size //= 2


# -- random schedules for the production locks

CHUNK = 250
"""Schedules per report of a process: about one second of work."""

DEFAULT_ACTS = frozenset(
    {
        Act.SWITCH,
        Act.CRASH,
        Act.PAUSE,
        Act.STALL,
        Act.LOSE_REPLY,
        Act.LOSE_REQUEST,
        Act.DELAY_REQUEST,
        Act.DELAY_REPLY,
        Act.INTERRUPT,
        Act.INTERRUPT_LATE,
        Act.DISCONNECT,
    }
)
"""The faults that a lease must tolerate.  Only a pause can cause two holders; then the fence
must hold."""

DATA_LOSS = frozenset({Act.FAIL_OVER, Act.RESTART})

PAUSES = (1.0, 6.0, 15.0)
"""Seconds: longer than a waiter's slice, longer than its liveness, longer than the lease."""

CHECKS = tuple(wrong for wrong in Wrong if wrong not in (Wrong.ORPHANED, *OF_THE_SHOP))

# A server that lost its last write may lose a holder, a waiter or the order, whatever the lock
# does.  Stale writes must still be refused, and clients must still be able to acquire the lock.
CHECKS_AFTER_DATA_LOSS = (Wrong.NOBODY_ENTERS, Wrong.STALE_WRITE, Wrong.STILLBORN)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What to search: which faults the scheduler has.

    `fenced`: the guarded resource compares tokens.
    """

    acts: frozenset[Act] = DEFAULT_ACTS
    fenced: bool = True

    @property
    def fault_model(self) -> FaultModel:
        """The deviations that the scheduler may make."""
        return FaultModel(self.acts, seconds=PAUSES, targets=("redis",), most_faults=3)

    @property
    def checks(self) -> tuple[Wrong, ...]:
        """The failures that must not happen."""
        return CHECKS_AFTER_DATA_LOSS if self.acts & DATA_LOSS else CHECKS

    def experiment(self, seed: int) -> Experiment:
        """Return the experiment of one seed."""
        acts = self.acts
        setup = partial(
            clients,
            seed=seed,
            replicated=Act.FAIL_OVER in acts,
            operated=bool(acts & FAULTS),
        )
        rules = Rules(
            self.checks,
            fair=True,
            max_idle=MAX_IDLE,
            max_idle_after_fault=MAX_IDLE_AFTER_FAULT,
            owner_in=production.owner_in,
        )
        return Experiment(setup, production.MODULES, rules, self.fenced)


@dataclass(slots=True)
class Tally:
    """The totals of many schedules.  `violations` has the seeds."""

    schedules: int = 0
    steps: int = 0
    overlaps: int = 0
    refused: int = 0
    violations: list[tuple[int, Wrong]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the totals of `other`."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.overlaps += other.overlaps
        self.refused += other.refused
        self.violations += other.violations


def run_seed(what: Exploration, seed: int) -> tuple[Run, Schedule]:
    """Run one seed; return the run and its schedule.  The caller provides virtual time."""
    scheduler = RandomScheduler(seed, what.fault_model)
    run = run_in(what.experiment(seed), World(scheduler))
    return run, tuple(scheduler.deviations)


def run_seeds(what: Exploration, seeds: Iterable[int]) -> Tally:
    """Run the schedules of these seeds."""
    tally = Tally()
    with inside_simulation(production.MODULES):
        for seed in seeds:
            run, _ = run_seed(what, seed)
            wrong = first_wrong(what, run)
            found = [] if wrong is None else [(seed, wrong)]
            tally.add(Tally(1, run.steps, run.overlaps, run.refused, found))
    return tally


def first_wrong(what: Exploration, run: Run) -> Wrong | None:
    """Return the first check that failed; None if all held."""
    return next((one.wrong for one in run.violations if one.wrong in what.checks), None)


def explore(
    what: Exploration,
    *,
    schedules: int,
    seed: int,
    processes: int,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run `schedules` schedules from seed `seed` on; stop after the first failure."""
    total, end = Tally(), seed + schedules
    parts = [range(first, min(first + CHUNK, end)) for first in range(seed, end, CHUNK)]
    run = partial(run_seeds, what)
    with ExitStack() as stack:
        tallies: Iterable[Tally] = map(run, parts)
        if processes > 1 and len(parts) > 1:
            # Spawn, because a fork would copy the threads and sockets of the caller.
            pool = get_context("spawn").Pool(min(processes, len(parts)))
            tallies = stack.enter_context(pool).imap_unordered(run, parts)
        for tally in tallies:
            total.add(tally)
            progress(total)
            if total.violations:
                break
    return total


def shortest(what: Exploration, seed: int, wrong: Wrong) -> tuple[Schedule, Run]:
    """Return the shortest schedule of a seed in which this check fails first, and its run."""
    with inside_simulation(production.MODULES):
        _, schedule = run_seed(what, seed)
    return shrink(what.experiment(seed), schedule, lambda run: first_wrong(what, run) is wrong)
