"""Steps of an adapter, which may raise anything, return anything, or never end."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from loadtest.address import RunImpossible

T = TypeVar("T")

STEP = 60.0
"""Seconds that a step of the adapter may take, or one of its requests."""

AT_ONCE = 16
"""Buyers who are prepared at the same time."""

LOOK = 0.2
"""Seconds between two looks for a step that takes too long."""


def valid(kind: type[T], value: object) -> T:
    """Return what an adapter returned; raise `ValueError` or `TypeError` if it is another kind."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value, enc_hook=dict), type=kind)


@dataclass(frozen=True, slots=True)
class Failed:
    """A step that raised or took too long; says why, in one line."""

    reason: str


def within(seconds: float, step: str, work: Callable[[], T]) -> T:
    """Return what a step of an adapter returns.

    Raises:
        RunImpossible: it raised, or took longer.
    """
    [found] = each_within(seconds, [None], lambda _: work(), each=seconds)
    if isinstance(found, Failed):
        raise RunImpossible(f"{step} {found.reason}")
    return found


def each_within(
    seconds: float, items: Sequence[Any], work: Callable[[Any], T], *, each: float
) -> list[T | Failed]:
    """Do a step for each of these, several at a time, and return what came of each.

    Args:
        seconds: for all of them together.
        items: of the step.
        work: the step.
        each: seconds for one; it is given up after that, and another one is begun in its place.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, T | Failed]] = queue.SimpleQueue()
    begun: dict[int, float] = {}
    for number in range(len(items)):
        todo.put(number)

    def work_off() -> None:
        with suppress(queue.Empty):
            while True:
                number = todo.get_nowait()
                begun[number] = time.monotonic()
                try:
                    done.put((number, work(items[number])))
                except BaseException as error:  # noqa: BLE001 - an adapter may raise anything
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    done.put((number, Failed(f"failed: {reason}")))

    def start_one() -> None:
        # A daemon: Python does not wait for it at its end.
        threading.Thread(target=work_off, daemon=True).start()

    for _ in range(min(AT_ONCE, len(items))):
        start_one()
    found: dict[int, T | Failed] = {}
    give_up = time.monotonic() + seconds
    while len(found) < len(items) and time.monotonic() < give_up:
        with suppress(queue.Empty):
            number, result = done.get(timeout=min(LOOK, max(0.0, give_up - time.monotonic())))
            found.setdefault(number, result)
        late = time.monotonic() - each
        for number, since in list(begun.items()):
            if number not in found and since < late:
                found[number] = Failed(f"took longer than {each:g} s")
                start_one()
    unfinished = Failed(f"took longer than {seconds:g} s")
    return [found.get(number, unfinished) for number in range(len(items))]
