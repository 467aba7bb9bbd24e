"""The set-up of one run: servers, clients with their programs, and the monitor."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from types import ModuleType
from typing import Any

from redis.exceptions import RedisError

from course.simulator.history import Event, Kind, Text, Violation, Wrong, _
from course.simulator.monitor import Monitor, Resource, Rules
from course.simulator.process import Process
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Deviation, Replay, Step
from course.simulator.virtual import CONNECTION_LOST, inside_simulation
from course.simulator.world import World
from locking import LockError

KEY = "stock"  # the name of the lock in every lesson

# Errors that a client may get from a lock; any other error is a bug of the simulator.
FAILURES = (RedisError, LockError, TypeError, KeyboardInterrupt)

DAY = 86_400.0


class Simulation:
    """One simulated run, to which a scenario adds its servers and clients.

    With `fenced`, the guarded resource compares tokens.
    """

    def __init__(self, world: World, monitor: Monitor, *, fenced: bool = False) -> None:
        self.world = world
        self.monitor = world.monitor = monitor
        self.resource = Resource(self.monitor, fenced=fenced)
        self.world.on_end.append(self.monitor.over)

    # -- clients

    def client(
        self,
        name: str,
        make: Callable[[], Any],
        *,
        timeout: float = 30.0,
        work: float = 2.0,
        after: float = 0.0,
        skew: float = 0.0,
        writes: bool = False,
        forgets: str = "",
        lingers: str = "",
        trusts: float | None = None,
        must_enter: tuple[Wrong, str] | None = None,
    ) -> None:
        """Add a process that acquires the lock once, works for `work` seconds and releases it.

        It starts `after` seconds from now with a wall clock `skew` seconds ahead; if it `writes`,
        it writes to the guarded resource after the work, with the lock's `token` if it has one.
        The client that `forgets` never releases; the one that `lingers` lives on after its release.
        Each counts as a holder for `trusts` seconds at most, which is to the end if that is None.
        If one that `must_enter` cannot, although nobody is inside, that is what goes wrong.
        """

        def run() -> None:
            lock = make()
            self.monitor.asks(name)
            if not self._attempt(name, lambda: lock.acquire(timeout)):
                if must_enter and not self.monitor.inside:
                    self.monitor.report(*must_enter, name)
                return
            until = inf if trusts is None else self.world.seconds() + trusts
            attempt = self.monitor.enters(name, lambda: self.world.seconds() < until)
            self.works(name, work)
            if work:
                self.world.sleep(work)
            if writes:
                self.resource.write(name, attempt, getattr(lock, "token", None))
            self.monitor.leaves(name)
            if forgets == name:
                self.note(name, Text(_("forgets to let go, and idles")))
                self.world.wait(None)
            lock.release()
            if lingers == name:
                self.note(name, Text(_("has let go, and lives on")))
                self.world.wait(None)

        self.start(name, run, after=after, skew=skew)

    def start(
        self, name: str, run: Callable[[], None], *, after: float = 0.0, skew: float = 0.0
    ) -> Process:
        """Add a process with any program."""

        def until_lost() -> None:
            try:
                run()
            except CONNECTION_LOST as problem:
                self.note(name, Text(_("ends with %s: %s"), type(problem).__name__, problem))

        process = self.world.process(name, skew=skew)
        if skew:
            self.given(Text(_("has a clock that is %s s fast"), f"{skew:g}"), who=name)
        self.world.spawn(process, until_lost, after=after)
        return process

    def _attempt(self, name: str, acquire: Callable[[], Any]) -> Any:
        try:
            got = acquire()
        except FAILURES as problem:
            self.fails(name, problem)
            return None
        if not got:
            self.monitor.gives_up(name)
        return got

    def fails(self, name: str, problem: BaseException) -> None:
        """Record that a client did not get the lock."""
        why = Text(_("fails with %s: %s"), type(problem).__name__, problem)
        self.monitor.gives_up(name, why)
        self._check_orphan(name)

    def works(self, name: str, seconds: float) -> None:
        """Add to the timeline that the holder works for a while."""
        if seconds:
            self.world.record(Kind.SLEEP, Text(_("works for %s s"), f"{seconds:g}"), who=name)

    def given(self, what: Any, *, who: str = "", server: str = "") -> None:
        """Add to the timeline a condition that holds from the start."""
        self.world.record(Kind.GIVEN, what, who=who, server=server)

    def note(self, name: str, text: str) -> None:
        """Add a note to the timeline."""
        self.world.record(Kind.NOTE, text, who=name)

    def visitor(self, make: Callable[[], Any]) -> None:
        """Add a client that comes a day later."""
        why = Text(_("nobody holds the lock, and a day later it is still taken"))
        found = (Wrong.NOBODY_ENTERS, why)
        self.client("Visitor", make, timeout=0.0, work=0.0, after=DAY, must_enter=found)

    def heir(self, make: Callable[[], Any], *, lease: float, after: float) -> None:
        """Add a client that comes when the last lease, of so many seconds, has ended."""
        why = Text(_("nobody holds the lock, its lease of %s s has ended, and it is taken"), lease)
        found = (Wrong.OUTLIVED, why)
        self.client("Heir", make, timeout=0.0, work=0.0, after=after, must_enter=found)

    def _check_orphan(self, name: str) -> None:
        for server in self.world.servers.values():
            if (
                isinstance(server, RedisServer)
                and self.monitor.key_owner() == name
                and server.model.find(server.lock_key) is not None
            ):
                why = Text(_("%s failed, and yet the key is %s's"), name, name)
                self.monitor.report(Wrong.ORPHANED, why, name)

    def check_let_go(self, name: str, holder: bytes) -> None:
        """Check after a release that the server no longer names the client as holder."""
        for server in self.world.servers.values():
            if isinstance(server, RedisServer) and holder in server.holders():
                why = Text(_("%s has let go, and yet the server keeps it for %s"), name, name)
                self.monitor.report(Wrong.KEPT, why, name)


Setup = Callable[[Simulation], None]

ANYTHING = Rules()  # whatever goes wrong ends the run


@dataclass(frozen=True, slots=True)
class Experiment:
    """A set-up and its checks; `modules` contain the lock code that gets virtual time."""

    setup: Setup
    modules: tuple[ModuleType, ...] = ()
    rules: Rules = ANYTHING
    fenced: bool = False


@dataclass(slots=True)
class Run:
    """The result of one run."""

    history: list[Event]
    violations: list[Violation]
    asked: list[Step]
    """The steps at which the scheduler could have deviated after the schedule's end."""
    overlaps: int = 0
    """Holders that entered while another holder had not noticed that its lease was over."""
    refused: int = 0
    """Stale writes that the guarded resource refused."""
    steps: int = 0
    moves: list[str] = field(default_factory=list)
    """The run, choice by choice; see `course.position`."""

    def has(self, wrong: Wrong) -> bool:
        """Return whether this failure happened."""
        return any(violation.wrong is wrong for violation in self.violations)


def run_schedule(what: Experiment, schedule: Iterable[Deviation] = ()) -> Run:
    """Run an experiment once under a schedule, in virtual time."""
    scheduler = Replay(schedule)
    with inside_simulation(what.modules):
        run = run_in(what, World(scheduler))
    run.asked = scheduler.asked
    return run


def run_in(what: Experiment, world: World) -> Run:
    """Run an experiment once in an empty world; the caller provides virtual time."""
    simulation = Simulation(world, Monitor(world, what.rules), fenced=what.fenced)
    what.setup(simulation)
    world.run()
    return Run(
        world.history,
        simulation.monitor.violations,
        [],
        overlaps=simulation.monitor.overlaps,
        refused=simulation.resource.refused,
        steps=world.steps,
        moves=world.moves,
    )
