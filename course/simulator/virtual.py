"""Stand-ins for `time`, `threading`, `random` and `uuid` that lock code sees in a simulation.

They replace the real modules in a module that says `import time`, for the length of a simulation
(`inside_simulation`).  Called from a thread that is not simulated, they delegate to the real
module, so other users of the lock code in the same process are not affected.
"""

from __future__ import annotations

import random as real_random
import threading as real_threading
import time as real_time
import uuid as real_uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from course.simulator.virtual_threads import (
    VirtualCondition,
    VirtualEvent,
    VirtualLock,
    VirtualThread,
    facade,
)
from course.simulator.world import current


class VirtualTime:
    """Has the interface of the module `time`."""

    def time(self) -> float:
        """Return the wall clock of the simulated process."""
        world = current()
        return real_time.time() if world is None else world.time_of_day()

    def monotonic(self) -> float:
        """Return the virtual clock, which never steps."""
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


class VirtualThreading:
    """Has the interface of the module `threading`."""

    @staticmethod
    def _make(virtual: Callable[..., Any], real: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        world = current()
        return real(*args, **kw) if world is None else virtual(world, *args, **kw)

    def Lock(self) -> Any:  # noqa: N802 - the module's own name
        """Return a lock of this process."""
        return self._make(VirtualLock, real_threading.Lock)

    def RLock(self) -> Any:  # noqa: N802
        """Return a reentrant lock of this process."""
        world = current()
        return real_threading.RLock() if world is None else VirtualLock(world, reentrant=True)

    def Event(self) -> Any:  # noqa: N802
        """Return an event of this process."""
        return self._make(VirtualEvent, real_threading.Event)

    def Condition(self, lock: Any = None) -> Any:  # noqa: N802
        """Return a condition of this process."""
        return self._make(VirtualCondition, real_threading.Condition, lock)

    def Thread(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        """Return a thread of this process."""
        maker = real_threading.Thread if current() is None else VirtualThread
        return maker(*args, **kwargs)

    def current_thread(self) -> Any:
        """Return the running thread."""
        world = current()
        if world is None:
            return real_threading.current_thread()
        assert world.running is not None
        return facade(world.running)

    def enumerate(self) -> list[Any]:
        """Return the living threads of the running thread's process."""
        world = current()
        if world is None:
            return list(real_threading.enumerate())
        me = world.me()
        return [facade(thread) for thread in world.threads if thread.process is me]

    def get_ident(self) -> int:
        """Return the running thread's number."""
        world = current()
        return real_threading.get_ident() if world is None else id(world.running)

    def __getattr__(self, name: str) -> Any:
        return getattr(real_threading, name)


class VirtualRandom:
    """Has the interface of the module `random`; repeatable per run."""

    def __getattr__(self, name: str) -> Any:
        world = current()
        return getattr(real_random if world is None else world.random, name)


class ReadableUuid(str):
    """Has the interface of `uuid.UUID`, and names its process."""

    __slots__ = ()

    @property
    def hex(self) -> str:
        """Return the text itself."""
        return str(self)


class VirtualUuid:
    """Has the interface of the module `uuid`, without random digits, for readable timelines."""

    def uuid4(self) -> Any:
        """Return the name of the process, with a number from the second call on."""
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
