"""Virtual time and threads in place of Python's, for the modules of the locks."""

from __future__ import annotations

import random as real_random
import threading as real_threading
import time as real_time
import uuid as real_uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import psycopg
import redis

from course.simulator.process import Thread
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
    clock = world.monotonic  # never steps
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
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            self._queue.wake(1)

    def locked(self) -> bool:
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
        return self._set

    def set(self) -> None:
        self._set = True
        self._queue.wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._queue.wait(timeout)
        return self._set


class VirtualThread(real_threading.Thread):
    """Another greenlet of the same simulated process."""

    _simulated: Thread | None = None

    def __init__(self, *args: Any, daemon: bool | None = None, **kwargs: Any) -> None:
        super().__init__(*args, daemon=bool(daemon), **kwargs)
        world = current()
        assert world is not None
        self._world, self._process = world, world.me()
        self._over = VirtualEvent(world)

    @property
    def ident(self) -> int | None:
        return None if self._simulated is None else id(self._simulated)

    def start(self) -> None:
        def body() -> None:
            try:
                self.run()
            except CONNECTION_LOST:
                pass  # only the thread ends, as in Python
            finally:
                self._over.set()

        self._simulated = self._world.spawn(self._process, body, daemon=self.daemon)

    def join(self, timeout: float | None = None) -> None:
        self._over.wait(timeout)

    def is_alive(self) -> bool:
        return self._simulated is not None and not self._simulated.done
