"""Search for the schedule that breaks a lock, and shrinking of a failing schedule.

`search` tries every schedule, those with the fewest deviations first, so its finding is also the
simplest; it is deterministic.  The bound on deviations is the bound on preemptions of
M. Musuvathi and S. Qadeer, "Iterative context bounding" (PLDI 2007): most concurrency bugs need
very few.
"""

from collections.abc import Callable
from dataclasses import dataclass

from course.simulator.history import Wrong
from course.simulator.schedule import FAULTS, Act, FaultModel, Schedule
from course.simulator.simulation import Experiment, Run, run_schedule

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
        for deviation in fault_model.options(*step)
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
        shorter = _without_some(what, schedule, fails, size)
        if shorter is not None:
            schedule, run = shorter
        elif size == 1:
            return schedule, run
        else:
            size = max(1, size // 2)


def _without_some(
    what: Experiment, schedule: Schedule, fails: Callable[[Run], bool], size: int
) -> tuple[Schedule, Run] | None:
    for start in range(0, len(schedule), size):
        shorter = schedule[:start] + schedule[start + size :]
        run = run_schedule(what, shorter)
        if fails(run):
            return shorter, run
    return None
