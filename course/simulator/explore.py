"""Random search for failures of the production locks, with crashes, pauses and lost replies.

One seed determines a schedule completely: the clients, their times, the order of steps and the
faults.  So the seed alone repeats a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from course.simulator import production
from course.simulator.explored_locks import (
    EXPLORED_LOCKS,
    MAX_IDLE,
    MAX_IDLE_AFTER_FAULT,
    ExploredLock,
    clients,
)
from course.simulator.history import OF_THE_SHOP, Wrong
from course.simulator.monitor import Rules
from course.simulator.schedule import FAULTS, Act, FaultModel, RandomScheduler, Schedule
from course.simulator.search import shrink
from course.simulator.simulation import Experiment, Run, run_experiment
from course.simulator.virtual import inside_simulation

CHUNK = 250
"""Schedules per report of a process: about one second of work."""

DEFAULT_ACTS = frozenset(
    {
        *(Act.SWITCH, Act.CRASH, Act.PAUSE, Act.STALL, Act.LOSE_REPLY, Act.LOSE_REQUEST),
        *(Act.DELAY_REQUEST, Act.DELAY_REPLY, Act.INTERRUPT, Act.INTERRUPT_LATE, Act.DISCONNECT),
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
    """What to search: which faults the scheduler has, and which lock.

    `fenced`: the guarded resource compares tokens.
    """

    acts: frozenset[Act] = DEFAULT_ACTS
    target: ExploredLock = EXPLORED_LOCKS["redis"]
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
        return Experiment(
            partial(
                clients,
                seed=seed,
                target=self.target,
                replicated=Act.FAIL_OVER in self.acts,
                operated=bool(self.acts & FAULTS),
            ),
            production.MODULES,
            Rules(
                self.checks,
                self.target.fair,
                MAX_IDLE,
                MAX_IDLE_AFTER_FAULT,
                production.owner_in,
            ),
            self.fenced,
            self.target.monitor,
        )


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
    run = run_experiment(what.experiment(seed), scheduler)
    return run, tuple(scheduler.deviations)


def run_chunk(what: Exploration, first: int, count: int) -> Tally:
    """Run `count` seeds from `first` on."""
    tally = Tally()
    with inside_simulation(production.MODULES):
        for seed in range(first, first + count):
            run, _ = run_seed(what, seed)
            tally.schedules += 1
            tally.steps += run.steps
            tally.overlaps += run.overlaps
            tally.refused += run.refused
            wrong = first_wrong(what, run)
            if wrong is not None:
                tally.violations.append((seed, wrong))
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
    total = Tally()
    for part in _parts(what, schedules, seed, processes):
        total.add(part)
        progress(total)
        if total.violations:
            break
    return total


def _parts(what: Exploration, schedules: int, seed: int, processes: int) -> Iterator[Tally]:
    starts = range(seed, seed + schedules, CHUNK)
    jobs = [(what, start, min(CHUNK, seed + schedules - start)) for start in starts]
    if processes <= 1 or len(jobs) == 1:
        yield from (run_chunk(*job) for job in jobs)
        return
    # Spawn, because a fork would copy the threads and sockets of the caller.
    with get_context("spawn").Pool(min(processes, len(jobs))) as pool:
        yield from pool.imap_unordered(_run_job, jobs)


def _run_job(job: tuple[Exploration, int, int]) -> Tally:
    return run_chunk(*job)


def shortest(what: Exploration, seed: int, wrong: Wrong) -> tuple[Schedule, Run]:
    """Return the shortest schedule of a seed in which this check fails first, and its run."""
    with inside_simulation(production.MODULES):
        _, schedule = run_seed(what, seed)
    return shrink(what.experiment(seed), schedule, lambda run: first_wrong(what, run) is wrong)
