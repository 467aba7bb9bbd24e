"""Virtual time and threads in place of Python's, for the modules of the locks."""

from __future__ import annotations

import random as real_random
import threading as real_threading
import time as real_time
import uuid as real_uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import psycopg
import redis

from course.simulator.process import Process, Thread
from course.simulator.world import World, current

CONNECTION_LOST = (
    redis.ConnectionError, redis.TimeoutError, psycopg.OperationalError, ConnectionError,
)  # fmt: skip
"""What ends a program that does not catch it."""


class StandIn:
    """Has the interface of a module: its own attributes inside a simulation, else the module's."""

    def __init__(self, real: ModuleType, virtual: Callable[[World, str], Any]) -> None:
        self._real = real
        self._virtual = virtual

    def copy(self) -> StandIn:
        """Return another one of the same module."""
        return StandIn(self._real, self._virtual)

    def __getattr__(self, name: str) -> Any:
        world = current()
        found = None if world is None else self._virtual(world, name)
        return getattr(self._real, name) if found is None else found


def _time(world: World, name: str) -> Any:
    clock = world.seconds  # never steps
    return {
        "time": world.time_of_day, "sleep": world.sleep, "monotonic": clock, "perf_counter": clock,
    }.get(name)  # fmt: skip


def _threading(world: World, name: str) -> Any:
    if name in ("Barrier", "BoundedSemaphore", "Condition", "Semaphore", "Timer"):
        raise AttributeError(f"the simulator has no threading.{name}; it has Lock, Event, Thread")
    return {
        "Lock": partial(VirtualLock, world),
        "RLock": partial(VirtualLock, world, reentrant=True),
        "Event": partial(VirtualEvent, world),
        "Thread": VirtualThread,
        "current_thread": lambda: world.running,
        "enumerate": lambda: [one for one in world.threads if one.process is world.me()],
        "get_ident": lambda: id(world.running),
    }.get(name)


def _random(world: World, name: str) -> Any:
    return getattr(world.random, name, None)


class ReadableUuid(str):
    """Has the interface of `uuid.UUID`, and names its process."""

    __slots__ = ()

    @property
    def hex(self) -> str:
        """Return the text itself."""
        return str(self)


def _uuid(world: World, name: str) -> Any:
    """Return `uuid4` without random digits: the name of the process, numbered from the second."""
    return (lambda: ReadableUuid(world.me().next_name())) if name == "uuid4" else None


TIME, THREADING = StandIn(real_time, _time), StandIn(real_threading, _threading)

VIRTUAL: dict[ModuleType, StandIn] = {
    real_time: TIME,
    real_threading: THREADING,
    real_random: StandIn(real_random, _random),
    real_uuid: StandIn(real_uuid, _uuid),
}


@contextmanager
def inside_simulation(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Give the modules of the lock code virtual time, threads and random numbers in the block."""
    replaced = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, ModuleType) and value in VIRTUAL
    ]
    for module, name, value in replaced:
        setattr(module, name, VIRTUAL[value])
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)


class _Waiting:
    """A queue of waiting simulated threads."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.threads: list[Thread] = []

    def wait(self, timeout: float | None) -> bool:
        thread = self.world.running
        assert thread is not None
        self.threads.append(thread)
        try:
            return self.world.wait(timeout)
        finally:
            if thread in self.threads:
                self.threads.remove(thread)

    def wake(self, count: int | None = None) -> None:
        for thread in self.threads[:count]:
            self.threads.remove(thread)
            self.world.wake(thread)


class VirtualLock:
    """Has the interface of `threading.Lock`, or of `threading.RLock` if `reentrant`."""

    def __init__(self, world: World, *, reentrant: bool = False) -> None:
        self._queue = _Waiting(world)
        self._reentrant = reentrant
        self._owner: Thread | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock; return whether it was acquired."""
        world = self._queue.world
        if not world.inside():
            return True  # the world is ending: no other thread runs
        me = world.running
        while self._owner is not None and not (self._reentrant and self._owner is me):
            if not blocking or not self._queue.wait(None if timeout < 0 else timeout):
                return False
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        """Release the lock; wake the next waiter."""
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            self._queue.wake(1)

    def locked(self) -> bool:
        """Return whether a thread holds it."""
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualEvent:
    """Has the interface of `threading.Event`."""

    def __init__(self, world: World) -> None:
        self._queue = _Waiting(world)
        self._set = False

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it and wake all waiters."""
        self._set = True
        self._queue.wake()

    def clear(self) -> None:
        """Reset it."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is."""
        if not self._set:
            self._queue.wait(timeout)
        return self._set


class VirtualThread:
    """Has the interface of `threading.Thread`: another greenlet of the same simulated process."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        world = current()
        assert world is not None
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self.ident: int | None = None
        self._world = world
        self._process: Process = world.me()
        self._run: Callable[[], object] = partial(target or self.run, *args, **(kwargs or {}))
        self._thread: Thread | None = None
        self._over = VirtualEvent(world)

    def run(self) -> None:
        """Run the thread's target; subclasses may override it."""

    def start(self) -> None:
        """Start it."""

        def body() -> None:
            try:
                self._run()
            except CONNECTION_LOST:
                pass  # only the thread ends, as in Python
            finally:
                self._over.set()

        self._thread = self._world.spawn(self._process, body, daemon=self.daemon)
        self.ident = id(self._thread)

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._over.wait(timeout)

    def is_alive(self) -> bool:
        """Return whether it has begun and not ended."""
        return self._thread is not None and not self._thread.done
