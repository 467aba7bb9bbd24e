"""Who goes first: a schedule is the list of places where the scheduler did the unexpected.

Left alone, the scheduler runs a client until it must wait, then the one that has been ready
longest.  A schedule lists the deviations from that, each tied to a *step*: the client's n-th
command while it acquires, works, or releases.  So a schedule is short, reads like a story ("A
crashes before command 2 of its acquire"), can be shrunk by leaving deviations out, and means the
same on another lock with other commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from random import Random
from typing import Any


class Act(StrEnum):
    """What a scheduler can do instead of letting the client take its step."""

    SWITCH = "switch"
    """Let `target` go first."""
    CRASH = "crash"
    """The client's process dies; nothing of its code runs any more, not even `finally`."""
    PAUSE = "pause"
    """The process stands still for `seconds`, all threads of it, before the step."""
    STALL = "stall"
    """The server does the step, then the process stands still before it sees the answer."""
    LOSE_REPLY = "lose reply"
    """The server does the step; the client gets a time-out error instead of the answer."""
    LOSE_REQUEST = "lose request"
    """The server never sees the step; the client gets the same time-out error."""
    LOSE_MESSAGE = "lose message"
    """What the step publishes reaches nobody."""
    FAIL_OVER = "fail over"
    """The server `target` is replaced by a replica that lacks the last write."""
    EVICT = "evict"
    """The server `target` drops the lock's key for want of memory."""
    CLOCK_JUMP = "clock jump"
    """The clock of `target`, a server, jumps ahead by `seconds`."""


FAULTS = frozenset(Act) - {Act.SWITCH}


@dataclass(frozen=True, slots=True, order=True)
class Deviation:
    """Before `client` takes the command number `step` (from 1) of its `phase`, do `act` instead.

    A phase is "acquire", "work" or "release"; "acquire 2" is that of its second round.
    """

    client: str
    phase: str
    step: int
    act: Act
    target: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        where = f"before command {self.step} of {self.client}'s {self.phase}"
        detail = f" {self.target}" if self.target else ""
        length = f" {self.seconds:g} s" if self.seconds else ""
        return f"{where}: {self.act}{detail}{length}"


Schedule = tuple[Deviation, ...]

Step = tuple[str, str, int, tuple[str, ...]]
"""A place for a deviation: client, phase, number of the command, who else is ready."""


def to_json(schedule: Schedule) -> list[dict[str, Any]]:
    """The schedule as plain values."""
    return [asdict(deviation) for deviation in schedule]


def from_json(values: Iterable[dict[str, Any]]) -> Schedule:
    """The schedule that `to_json` wrote."""
    return tuple(Deviation(**{**value, "act": Act(value["act"])}) for value in values)


@dataclass(frozen=True, slots=True)
class FaultModel:
    """What the scheduler may do in a run.

    `acts`: the deviations allowed; `seconds`: lengths that a pause, a stall or a clock's jump can
    have; `targets`: the servers that can fail over, evict or jump; `victims`: clients that faults
    may hit (empty: all); `most_faults`: how many faults a run may have.
    """

    acts: frozenset[Act] = frozenset({Act.SWITCH})
    seconds: tuple[float, ...] = (15.0,)
    targets: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    most_faults: int = 3

    def options(self, client: str, phase: str, step: int, others: Sequence[str]) -> list[Deviation]:
        """Every deviation possible at a step, mildest first; `others` are ready to go too."""
        found = []
        if Act.SWITCH in self.acts:
            found += [Deviation(client, phase, step, Act.SWITCH, other) for other in others]
        if self.victims and client not in self.victims:
            return found
        for act in Act:
            if act is Act.SWITCH or act not in self.acts:
                continue
            targets = self.targets if act in TARGETED else ("",)
            lengths = self.seconds if act in TIMED else (0.0,)
            found += [
                Deviation(client, phase, step, act, target, seconds)
                for target in targets
                for seconds in lengths
            ]
        return found


TARGETED = frozenset({Act.FAIL_OVER, Act.EVICT, Act.CLOCK_JUMP})
TIMED = frozenset({Act.PAUSE, Act.STALL, Act.CLOCK_JUMP})


class Scheduler:
    """Decides at each step; the base lets everything take its usual course."""

    def consider(
        self, client: str, phase: str, step: int, others: Sequence[str]
    ) -> Deviation | None:
        """The deviation to make before `client` takes `step`, None to let it go on."""
        return None


class Replay(Scheduler):
    """Repeats a schedule.  Records every step it was asked about, for a search to go on from."""

    def __init__(self, schedule: Iterable[Deviation]) -> None:
        self._left: dict[tuple[str, str, int], list[Deviation]] = {}
        for one in schedule:
            self._left.setdefault((one.client, one.phase, one.step), []).append(one)
        self.asked: list[Step] = []

    def consider(
        self, client: str, phase: str, step: int, others: Sequence[str]
    ) -> Deviation | None:
        """The next deviation of the schedule for this step."""
        due = self._left.get((client, phase, step))
        if not due:
            if not self._left:
                self.asked.append((client, phase, step, tuple(others)))
            return None
        deviation = due.pop(0)
        if not due:
            del self._left[client, phase, step]
        return deviation


class RandomScheduler(Scheduler):
    """Deviates at random, repeatably by the seed, and records what it did.

    FeatureFlags are common and faults rare, as one fault usually needs several switches around it
    to do harm; a run keeps one temper (calm to wild), because runs of one temper only would
    never show what the other finds.
    """

    def __init__(self, seed: int, fault_model: FaultModel) -> None:
        self._random = Random(seed)
        self._fault_model = fault_model
        self._switch_rate = self._random.choice((0.05, 0.15, 0.35, 0.6))
        self._faults_left = self._random.randint(0, fault_model.most_faults)
        self._fault_rate = self._random.choice((0.02, 0.06, 0.15))
        self._faults = sorted(fault_model.acts & FAULTS)
        self.deviations: list[Deviation] = []

    def consider(
        self, client: str, phase: str, step: int, others: Sequence[str]
    ) -> Deviation | None:
        """Roll for a fault, then for a switch."""
        dice = self._random
        roll = dice.random()
        deviation = None
        if self._faults_left and roll < self._fault_rate:
            deviation = self._fault(client, phase, step)
        elif others and roll > 1 - self._switch_rate:
            deviation = Deviation(client, phase, step, Act.SWITCH, dice.choice(others))
        if deviation is not None:
            self.deviations.append(deviation)
        return deviation

    def _fault(self, client: str, phase: str, step: int) -> Deviation | None:
        fault_model = self._fault_model
        if not self._faults or (fault_model.victims and client not in fault_model.victims):
            return None
        act = self._random.choice(self._faults)
        self._faults_left -= 1
        return Deviation(
            client,
            phase,
            step,
            act,
            self._random.choice(fault_model.targets) if act in TARGETED else "",
            self._random.choice(fault_model.seconds) if act in TIMED else 0.0,
        )
