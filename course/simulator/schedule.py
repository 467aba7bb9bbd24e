"""Schedules: the deviations of a run from the default order.

By default, the scheduler runs a client until it must wait, and then the client that has been ready
longest.  A schedule lists the deviations, each at a *step*: the client's n-th command while it
acquires, works, or releases.  So a schedule is short and readable ("A crashes before command 2 of
its acquire"), can be shrunk by removing deviations, and applies to any lock.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple

from course.simulator.history import Say, _


class Act(StrEnum):
    """An action of the scheduler in place of a client's step."""

    SWITCH = _("switch")
    """Let `target` go first."""
    CRASH = _("crash")
    """The client's process dies; none of its code runs any more, not even `finally`."""
    PAUSE = _("pause")
    """The process, with all its threads, stands still for `seconds` before the step."""
    STALL = "stall"
    """The server executes the step; the process stands still before it gets the answer."""
    LOSE_REPLY = _("lose reply")
    """The server executes the step; the client gets a time-out error instead of the answer."""
    LOSE_REQUEST = _("lose request")
    """The server never receives the step; the client gets the same time-out error."""
    DELAY_REQUEST = "delay request"
    """The step reaches the server a little later; the process's other threads go on."""
    DELAY_REPLY = "delay reply"
    """The server executes the step; its answer comes a little later."""
    INTERRUPT = "interrupt"
    """The client is interrupted, or its task cancelled, instead of taking the step."""
    INTERRUPT_LATE = "interrupt late"
    """The server executes the step; the client is interrupted before it reads the answer."""
    DISCONNECT = "disconnect"
    """All connections to the server `target` break, idle ones without notice."""
    LOSE_MESSAGE = "lose message"
    """The message that the step publishes is lost."""
    FAIL_OVER = "fail over"
    """The server `target` is replaced by a replica that lacks the last write."""
    RESTART = "restart"
    """The server `target` restarts without its data; all connections to it break."""
    EVICT = "evict"
    """The server `target` evicts the lock's key."""
    CLOCK_JUMP = _("clock jump")
    """The clock of `target`, a server, jumps ahead by `seconds`."""


FAULTS = frozenset(Act) - {Act.SWITCH}

ACTS = {act.value.replace(" ", "-"): act for act in Act}
"""By the name that commands, addresses and pages use."""


@dataclass(frozen=True, slots=True, order=True)
class Deviation:
    """Do `act` before `client` runs the command number `step` (from 1) of its `phase`.

    A phase is "acquire", "work" or "release"; "acquire 2" is the one in its second round.
    """

    client: str
    phase: str
    step: int
    act: Act
    target: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.said(str)

    def said(self, say: Say) -> str:
        """Return it as a part of a sentence."""
        place = say(_("before command %(step)s of %(client)s's %(phase)s"))
        detail = f" {self.target}" if self.target else ""
        length = f" {self.seconds:g} s" if self.seconds else ""
        return f"{place % asdict(self)}: {say(self.act)}{detail}{length}"


Schedule = tuple[Deviation, ...]


class Step(NamedTuple):
    """A place for a deviation: before a client's command `number` of a phase.

    `others` are the other clients that are ready.
    """

    client: str
    phase: str
    number: int
    others: tuple[str, ...]

    def deviation(self, act: Act, target: str = "", seconds: float = 0.0) -> Deviation:
        """Return a deviation at this step."""
        return Deviation(self.client, self.phase, self.number, act, target, seconds)


@dataclass(frozen=True, slots=True)
class FaultModel:
    """The deviations that the scheduler may make in a run.

    `acts`: the deviations allowed; `seconds`: lengths that a pause, a stall or a clock's jump can
    have; `targets`: the servers that can fail over, evict or jump; `victims`: clients that faults
    may hit (empty: all); `most_faults`: how many faults a run may have.
    """

    acts: frozenset[Act] = frozenset({Act.SWITCH})
    seconds: tuple[float, ...] = (15.0,)
    targets: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    most_faults: int = 3

    def options(self, step: Step) -> list[Deviation]:
        """Return every possible deviation at a step, mildest first."""
        found = []
        if Act.SWITCH in self.acts:
            found += [step.deviation(Act.SWITCH, other) for other in step.others]
        if self.victims and step.client not in self.victims:
            return found
        for act in [act for act in Act if act in self.acts & FAULTS]:
            found += [
                step.deviation(act, target, seconds)
                for target in (self.targets if act in TARGETED else ("",))
                for seconds in (self.seconds if act in TIMED else (0.0,))
            ]
        return found


TARGETED = frozenset({Act.FAIL_OVER, Act.RESTART, Act.DISCONNECT, Act.EVICT, Act.CLOCK_JUMP})
MARKS = {Act.CRASH: "!", Act.PAUSE: "~"}
LOSSES = {Act.LOSE_MESSAGE: "?", Act.LOSE_REQUEST: "<", Act.LOSE_REPLY: ">"}
"""How moves (`course.position`) write what happens to a process or its command …"""

SERVER_ACTS = {name: act for name, act in ACTS.items() if act in TARGETED}
"""… and what hits a server."""

TIMED = frozenset({Act.PAUSE, Act.STALL, Act.CLOCK_JUMP})


class Scheduler:
    """Decides at each step; this base class never deviates."""

    def consider(self, step: Step) -> Deviation | None:
        """Return the deviation to make at a step; None: go on."""
        return None


class Replay(Scheduler):
    """Repeats a schedule and records the steps after its end, so that a search can extend it."""

    def __init__(self, schedule: Iterable[Deviation]) -> None:
        self._left: dict[tuple[str, str, int], list[Deviation]] = {}
        for one in schedule:
            self._left.setdefault((one.client, one.phase, one.step), []).append(one)
        self.asked: list[Step] = []

    def consider(self, step: Step) -> Deviation | None:
        """Return the schedule's next deviation for this step."""
        due = self._left.get(step[:3])
        if not due:
            if not self._left:
                self.asked.append(step)
            return None
        deviation = due.pop(0)
        if not due:
            del self._left[step[:3]]
        return deviation


class RandomScheduler(Scheduler):
    """Deviates at random, repeatably by the seed, and records its deviations.

    Switches are common and faults rare, because a fault usually needs several switches around it
    to do harm.  The rates are fixed per run and differ between runs, because each rate finds other
    failures.
    """

    def __init__(self, seed: int, fault_model: FaultModel) -> None:
        self._random = Random(seed)
        self._fault_model = fault_model
        self._switch_rate = self._random.choice((0.05, 0.15, 0.35, 0.6))
        self._faults_left = self._random.randint(0, fault_model.most_faults)
        self._fault_rate = self._random.choice((0.02, 0.06, 0.15))
        self._faults = sorted(fault_model.acts & FAULTS)
        self.deviations: list[Deviation] = []

    def consider(self, step: Step) -> Deviation | None:
        """Draw a fault, then a switch."""
        dice = self._random
        roll = dice.random()
        deviation = None
        if self._faults_left and roll < self._fault_rate:
            deviation = self._fault(step)
        elif step.others and roll > 1 - self._switch_rate:
            deviation = step.deviation(Act.SWITCH, dice.choice(step.others))
        if deviation is not None:
            self.deviations.append(deviation)
        return deviation

    def _fault(self, step: Step) -> Deviation | None:
        fault_model = self._fault_model
        if not self._faults or (fault_model.victims and step.client not in fault_model.victims):
            return None
        act = self._random.choice(self._faults)
        self._faults_left -= 1
        target = self._random.choice(fault_model.targets) if act in TARGETED else ""
        seconds = self._random.choice(fault_model.seconds) if act in TIMED else 0.0
        return step.deviation(act, target, seconds)
