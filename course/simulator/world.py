"""The simulated world: processes, threads and a clock that advances only when all threads wait.

Lock code runs unchanged, each of its threads in a greenlet.  Every command to a server and every
sleep returns control to the world, which asks a `Scheduler` which thread goes next.  So a rare
interleaving is a list of choices here and can be repeated.  Nothing runs in parallel and no real
time passes: a run is a pure function of its schedule.

The idea of taking the scheduler's choices as the input of a test is from P. Godefroid,
"Model checking for programming languages using VeriSoft" (POPL 1997) and M. Musuvathi et al.,
"Finding and reproducing Heisenbugs in concurrent programs" (CHESS, OSDI 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent, greenlet

from course.simulator.history import MICROSECONDS, Event, Kind, Text, _
from course.simulator.process import Process, Server, Stuck, Thread
from course.simulator.schedule import LOSSES, MARKS, TARGETED, Act, Deviation, Scheduler, Step

if TYPE_CHECKING:
    from course.simulator.monitor import Monitor

EPOCH = 1_700_000_000 * MICROSECONDS  # the time of day at the start of every run

# A command takes a millisecond: short compared with any lease, and easy to read.
COMMAND_TIME = 1_000
# Of a delayed request or answer: noticeable, and shorter than the client's timeout.
DELAY = 900_000
# The timeout of a client that waits for a lost answer: redis-py's `socket_timeout` in shops.
REPLY_TIMEOUT = MICROSECONDS


UNDISTURBING = TARGETED | {Act.INTERRUPT, Act.INTERRUPT_LATE, Act.LOSE_MESSAGE}
"""The faults after which a process still has its place in a queue, or gives it up itself."""


_worlds: list[World] = []


def current() -> World | None:
    """Return the world that the calling greenlet is part of, None outside of one."""
    world = _worlds[-1] if _worlds else None
    return world if world is not None and world.inside() else None


HORIZON = 2 * 86_400 * MICROSECONDS
BOOTED, BOOTED_APART = 8192.0, 512.0  # s
"""The end of virtual time."""


class World:
    """One run.  `scheduler` decides the order."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.now = 0
        self.steps = 0
        self.history: list[Event] = []
        self.moves: list[str] = []  # every step and fault; see `course.position`
        self.processes: dict[str, Process] = {}
        self.servers: dict[str, Server] = {}
        self.monitor: Monitor | None = None
        self.random = Random(0)  # for lock code; the scheduler has another one
        self.threads: list[Thread] = []
        self.running: Thread | None = None
        self.stopped = False  # or will be after the current move, because the result is known
        self._hub = getcurrent()  # the creator of a world also runs it
        self.on_end: list[Callable[[], None]] = []
        self._last: Thread | None = None  # the last thread to step continues unless it must wait
        self._readied = 0
        self._stall = 0

    # -- for scenarios

    def process(self, name: str, *, skew: float = 0.0) -> Process:
        """Return a new process whose wall clock is `skew` seconds ahead.

        Each runs on a machine of its own, of which the later ones were started later: their
        monotonic clocks have nothing in common.
        """
        booted = max(0.0, BOOTED - BOOTED_APART * len(self.processes))
        made = self.processes[name] = Process(name, skew=skew, booted=booted)
        return made

    def spawn(
        self,
        process: Process,
        run: Callable[[], None],
        *,
        after: float = 0.0,
        daemon: bool = False,
    ) -> Thread:
        """Return a new thread of the process; it starts `after` seconds from now."""
        # When its greenlet ends, control returns to the loop.
        thread = Thread(process, greenlet(run, self._hub), daemon)
        self.threads.append(thread)
        if after:
            thread.ready, thread.due = False, self.now + round(after * MICROSECONDS)
        else:
            self._make_ready(thread)
        return thread

    def run(self) -> None:
        """Run until every thread has ended or waits forever, or until it is `stopped`."""
        _worlds.append(self)
        try:
            while not self.stopped and (thread := self._next()) is not None:
                self._resume(thread)
            for listener in self.on_end:
                listener()
        finally:
            self.stopped = True
            for thread in list(self.threads):
                self._kill(thread)
            # greenlet 3.5 frees the hub of a thread that ends, although the world refers to it, if
            # the world is garbage that is being collected just then.
            del self._hub
            _worlds.remove(self)

    def record(
        self, kind: Kind, what: Any, answer: Any = None, *, who: str = "", server: str = ""
    ) -> None:
        """Add a line to the history."""
        self.history.append(Event(self.now, who, kind, what, answer, server))

    # -- for simulated clients; all of them run in the caller's greenlet

    def inside(self) -> bool:
        """Return whether the caller is a thread of this world."""
        running = self.running
        return running is not None and getcurrent() is running.greenlet

    def me(self) -> Process:
        """Return the process of the running thread."""
        if self.running is None:
            raise Stuck("no simulated thread is running")
        return self.running.process

    def seconds(self) -> float:
        """Return the seconds since the run began."""
        return self.now / MICROSECONDS

    def monotonic(self) -> float:
        """Return the monotonic clock of the running thread's process."""
        return (self.me().booted + self.now) / MICROSECONDS

    def time_of_day(self) -> float:
        """Return the wall clock of the running thread's process."""
        return (EPOCH + self.now + self.me().skew) / MICROSECONDS

    def sleep(self, seconds: float) -> None:
        """Wait; a crash or a pause may happen during the wait."""
        self.wait(max(0.0, seconds))

    def wait(self, seconds: float | None) -> bool:
        """Wait to be woken, at most `seconds`; return whether woken."""
        thread = self._thread()
        thread.ready = thread.woken = False
        thread.due = None if seconds is None else self.now + _duration(seconds)
        self._switch()
        return thread.woken

    def wake(self, thread: Thread) -> None:
        """End a thread's wait."""
        if not thread.ready and not thread.done:
            thread.woken = True
            self._make_ready(thread)

    def step(self, about: Any = None) -> Act | None:
        """Stop just before a command, `about`; return the scheduler's action on that command.

        The caller carries out what a client's connection suffers: a loss, a delay, an interrupt.
        """
        thread = self._thread()
        thread.stepping, thread.about = True, about
        self._make_ready(thread, keep=True)
        self._switch()
        effect, thread.effect = thread.effect, None
        return effect

    def stall(self) -> None:
        """Pause after the command and before its answer, as `Act.STALL` requires."""
        self.me().paused_until = self.now + self._stall
        self.sleep(0)

    # -- the loop

    def _thread(self) -> Thread:
        if self.running is None or not self.inside():
            raise Stuck("only a simulated thread can wait in virtual time")
        if self.stopped or self.running.process.crashed:
            raise GreenletExit  # a dead process must not reach a server in a `finally`
        return self.running

    def _switch(self) -> None:
        self._hub.switch()
        self._thread()

    def _make_ready(self, thread: Thread, *, keep: bool = False) -> None:
        thread.ready = True
        if not keep:
            self._readied += 1
            thread.order = self._readied

    def _resume(self, thread: Thread) -> None:
        if thread.stepping:
            thread.stepping = False
            self.steps += 1
            self.now += COMMAND_TIME
            loss = LOSSES.get(thread.effect, "") if thread.effect else ""
            self.moves.append(thread.process.name + loss)
        self.running = thread
        try:
            thread.greenlet.switch()
        finally:
            self.running = None
        if thread.greenlet.dead:
            self._forget(thread)
            family = [one for one in self.threads if one.process is thread.process]
            if all(one.daemon for one in family):
                for one in family:
                    self._kill(one)

    def _next(self) -> Thread | None:
        last = self._last
        while True:
            able = self._runnable()
            if not able:
                if not self._let_time_pass():
                    return None
                continue
            thread = last if last in able else min(able, key=lambda one: one.order)
            if not thread.stepping:
                return thread  # other clients cannot observe a wake-up
            thread.process.steps += 1
            chosen = self._consult(thread, able)
            if chosen is not None:
                return chosen
            last = None

    def _runnable(self) -> list[Thread]:
        able = []
        now = self.now
        for thread in self.threads:
            if not thread.ready and thread.due is not None and thread.due <= now:
                self._make_ready(thread)
            if thread.ready and thread.process.paused_until <= now:
                able.append(thread)
        return able

    def _let_time_pass(self) -> bool:
        ends = []
        busy = False
        for thread in self.threads:
            busy = busy or (not thread.daemon and (thread.ready or thread.due is not None))
            if thread.ready:
                ends.append(thread.process.paused_until)
            elif thread.due is not None:
                ends.append(max(thread.due, thread.process.paused_until))
        if not busy or min(ends) > HORIZON:
            return False
        self.now = max(self.now, min(ends))
        return True

    def _consult(self, thread: Thread, able: list[Thread]) -> Thread | None:
        """Ask the scheduler about a step; return the thread to run, None to choose again."""
        others = [one for one in able if one is not thread]
        names = tuple(one.process.name for one in others)
        process = thread.process
        deviation = self.scheduler.consider(Step(process.name, process.phase, process.steps, names))
        if deviation is None:
            self._last = thread
            return thread
        process.steps -= 1
        if deviation.act is Act.SWITCH:
            chosen = [one for one in others if one.process.name == deviation.target]
            if not chosen:
                return None
            return self._take(chosen[0])
        return self._apply_fault(deviation, thread)

    def _take(self, thread: Thread) -> Thread:
        if thread.stepping:
            thread.process.steps += 1
        self._last = thread
        return thread

    def _apply_fault(self, deviation: Deviation, thread: Thread) -> Thread | None:
        act, process = deviation.act, thread.process
        if act in MARKS:
            self.moves.append(process.name + MARKS[act])
        elif act in TARGETED:
            self.moves.append(act.value.replace(" ", "-"))
        process.faults += 1
        if act not in UNDISTURBING:
            process.disturbed = True
        if act is Act.CRASH:
            self.record(Kind.FAULT, Text(_("crashes")), who=process.name)
            process.crashed, process.crashed_at = True, self.now
            if self.monitor is not None:
                self.monitor.crashed(process.name)
            for server in self.servers.values():
                server.lose(process)
            for one in [one for one in self.threads if one.process is process]:
                self._kill(one)
            return None
        if act is Act.PAUSE:
            process.paused_until = self.now + round(deviation.seconds * MICROSECONDS)
            what = Text(_("is paused for %s s"), f"{deviation.seconds:g}")
            self.record(Kind.FAULT, what, who=process.name)
            return None
        if act in TARGETED:
            # A schedule found on another lock may name a server that does not exist here.
            server = self.servers.get(deviation.target) or next(iter(self.servers.values()))
            self.record(Kind.FAULT, server.suffer(act, deviation.seconds), server=server.name)
            return None
        self._stall = round(deviation.seconds * MICROSECONDS)
        thread.effect = act
        return self._take(thread)

    def _kill(self, thread: Thread) -> None:
        """End a thread without letting its code reach a server."""
        self.running = thread  # so that its code finds itself dead
        while thread.greenlet:  # true while it has frames to unwind
            thread.greenlet.throw(GreenletExit)
        self.running = None
        self._forget(thread)

    def _forget(self, thread: Thread) -> None:
        thread.done = True
        del thread.greenlet  # it refers to the hub; see `run`
        self.threads.remove(thread)


def _duration(seconds: float) -> int:
    """Return microseconds, at least one, because a wait of zero could repeat forever."""
    return max(1, round(seconds * MICROSECONDS)) if seconds > 0 else 0
