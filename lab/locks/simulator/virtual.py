"""Stand-ins for `time`, `threading`, `random` and `uuid` that lock code sees inside a simulation.

A module that says `import time` gets these put in the place of the real module, for the length
of a simulation only (`inside_simulation`).  Asked from a thread that is not simulated they pass
the question on to the real module, so other users of the same lock code in the same process
notice nothing.
"""

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

from lab.locks.simulator.world import Process, Thread, World, current


class VirtualTime:
    """Reads like the module `time`."""

    def time(self) -> float:
        """The wall clock of the simulated process."""
        world = current()
        return real_time.time() if world is None else world.time_of_day()

    def monotonic(self) -> float:
        """The virtual clock, which never steps."""
        world = current()
        return real_time.monotonic() if world is None else world.seconds()

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        world = current()
        if world is None:
            real_time.sleep(seconds)
        else:
            world.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(real_time, name)


class _Waiting:
    """A queue of simulated threads that wait for something."""

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
    """Reads like `threading.Lock`, or `threading.RLock` if `reentrant`."""

    def __init__(self, world: World, *, reentrant: bool = False) -> None:
        self._queue = _Waiting(world)
        self._reentrant = reentrant
        self._owner: Thread | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; whether it was taken."""
        world = self._queue.world
        if not world.inside():
            return True  # the world is being taken down: nobody else runs
        me = world.running
        while self._owner is not None and not (self._reentrant and self._owner is me):
            if not blocking or not self._queue.wait(None if timeout < 0 else timeout):
                return False
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        """Let the next one in."""
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            self._queue.wake(1)

    def locked(self) -> bool:
        """Whether somebody has it."""
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualEvent:
    """Reads like `threading.Event`."""

    def __init__(self, world: World) -> None:
        self._queue = _Waiting(world)
        self._set = False

    def is_set(self) -> bool:
        """Whether it happened."""
        return self._set

    def set(self) -> None:
        """Wake all that wait."""
        self._set = True
        self._queue.wake()

    def clear(self) -> None:
        """Forget that it happened."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it happens; whether it did."""
        if not self._set:
            self._queue.wait(timeout)
        return self._set


class VirtualCondition:
    """Reads like `threading.Condition`."""

    def __init__(self, world: World, lock: VirtualLock | None = None) -> None:
        self._lock = VirtualLock(world, reentrant=True) if lock is None else lock
        self._queue = _Waiting(world)
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Let go of the lock, wait for a `notify`, take it again; whether notified."""
        self._lock.release()
        try:
            return self._queue.wait(timeout)
        finally:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds; whether it does."""
        world = self._queue.world
        end = None if timeout is None else world.seconds() + timeout
        while not predicate():
            left = None if end is None else end - world.seconds()
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        """Wake `n` of those that wait."""
        self._queue.wake(n)

    def notify_all(self) -> None:
        """Wake all of them."""
        self._queue.wake()


class VirtualThread:
    """Reads like `threading.Thread`: another greenlet of the same simulated process."""

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
        """What the thread does, if there is no target."""

    def start(self) -> None:
        """Start it."""

        def body() -> None:
            try:
                self._run()
            finally:
                self._over.set()

        self._thread = self._world.spawn(self._process, body, daemon=self.daemon)
        self.ident = id(self._thread)

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._over.wait(timeout)

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self._thread is not None and not self._thread.done


class RunningThread:
    """What `current_thread` gives to a simulated thread."""

    __slots__ = ("_thread",)

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    @property
    def ident(self) -> int:
        """Its number."""
        return id(self._thread)

    def is_alive(self) -> bool:
        """Whether it has not ended; asked by what works on its behalf."""
        return not self._thread.done


def _face(thread: Thread) -> RunningThread:
    """The one object by which lock code knows the thread."""
    if thread.face is None:
        thread.face = RunningThread(thread)
    face: RunningThread = thread.face
    return face


class VirtualThreading:
    """Reads like the module `threading`."""

    @staticmethod
    def _make(virtual: Callable[..., Any], real: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        world = current()
        return real(*args, **kw) if world is None else virtual(world, *args, **kw)

    def Lock(self) -> Any:  # noqa: N802 - the module's own name
        """A lock of this process."""
        return self._make(VirtualLock, real_threading.Lock)

    def RLock(self) -> Any:  # noqa: N802
        """A lock that its owner can take again."""
        world = current()
        return real_threading.RLock() if world is None else VirtualLock(world, reentrant=True)

    def Event(self) -> Any:  # noqa: N802
        """An event of this process."""
        return self._make(VirtualEvent, real_threading.Event)

    def Condition(self, lock: Any = None) -> Any:  # noqa: N802
        """A condition of this process."""
        return self._make(VirtualCondition, real_threading.Condition, lock)

    def Thread(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        """A thread of this process."""
        maker = real_threading.Thread if current() is None else VirtualThread
        return maker(*args, **kwargs)

    def current_thread(self) -> Any:
        """The running thread."""
        world = current()
        if world is None:
            return real_threading.current_thread()
        assert world.running is not None
        return _face(world.running)

    def enumerate(self) -> list[Any]:
        """The living threads of the running thread's process."""
        world = current()
        if world is None:
            return list(real_threading.enumerate())
        me = world.me()
        return [_face(thread) for thread in world.threads if thread.process is me]

    def get_ident(self) -> int:
        """The running thread's number."""
        world = current()
        return real_threading.get_ident() if world is None else id(world.running)

    def __getattr__(self, name: str) -> Any:
        return getattr(real_threading, name)


class VirtualRandom:
    """Reads like the module `random`, repeatably in each run."""

    def __getattr__(self, name: str) -> Any:
        world = current()
        return getattr(real_random if world is None else world.random, name)


class ReadableUuid(str):
    """Reads like a `uuid.UUID`, and says whose it is."""

    __slots__ = ()

    @property
    def hex(self) -> str:
        """The text itself."""
        return str(self)


class VirtualUuid:
    """Reads like the module `uuid`; a timeline with random digits could not be read."""

    def uuid4(self) -> Any:
        """The name of the process, and a number if it asks again."""
        world = current()
        return real_uuid.uuid4() if world is None else ReadableUuid(world.me().next_name())

    def __getattr__(self, name: str) -> Any:
        return getattr(real_uuid, name)


VIRTUAL: dict[ModuleType, Any] = {
    real_time: VirtualTime(),
    real_threading: VirtualThreading(),
    real_random: VirtualRandom(),
    real_uuid: VirtualUuid(),
}


@contextmanager
def inside_simulation(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Give the modules of the lock code virtual time, threads and dice for a while."""
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
