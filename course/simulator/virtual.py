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
from functools import partial
from types import ModuleType
from typing import Any

from course.simulator.virtual_threads import (
    VirtualCondition,
    VirtualEvent,
    VirtualLock,
    VirtualThread,
)
from course.simulator.world import World, current


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
    return {
        "Lock": partial(VirtualLock, world),
        "RLock": partial(VirtualLock, world, reentrant=True),
        "Event": partial(VirtualEvent, world),
        "Condition": partial(VirtualCondition, world),
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
