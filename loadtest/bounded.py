"""Steps of an adapter, which may raise anything, return anything, or never end."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from loadtest.address import RunImpossible

T = TypeVar("T")

STEP = 60.0
"""Seconds that a step of the adapter may take, or one of its requests."""

AT_ONCE = 16
"""Buyers who are prepared at the same time."""


def valid(kind: type[T], value: object) -> T:
    """Return what an adapter returned; raise `ValueError` or `TypeError` if it is another kind."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value, enc_hook=dict), type=kind)


def within(seconds: float, step: str, work: Callable[[], T]) -> T:
    """Return what a step of an adapter returns.

    Raises:
        RunImpossible: it raised, or took longer.
    """
    [found] = each_within(seconds, step, [None], lambda _: work())
    return found


def each_within(
    seconds: float, step: str, items: Sequence[Any], work: Callable[[Any], T]
) -> list[T]:
    """Do a step for each of these, several at a time, and return what it returns.

    Raises:
        RunImpossible: one raised, or all together took longer.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    for number in range(len(items)):
        todo.put(number)

    def work_off() -> None:
        with suppress(queue.Empty):
            while True:
                number = todo.get_nowait()
                try:
                    done.put((number, work(items[number]), None))
                except BaseException as error:  # noqa: BLE001 - an adapter may raise anything
                    done.put((number, None, error))

    for _ in range(min(AT_ONCE, len(items))):
        # Daemons: Python does not wait for them at its end.
        threading.Thread(target=work_off, daemon=True).start()
    found: dict[int, T] = {}
    give_up = time.monotonic() + seconds
    while len(found) < len(items):
        try:
            number, found[number], error = done.get(timeout=max(0.0, give_up - time.monotonic()))
        except queue.Empty:
            raise RunImpossible(f"{step} took longer than {seconds:g} s") from None
        if error is not None:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RunImpossible(f"{step} failed: {reason}") from error
    return [found[number] for number in range(len(items))]
