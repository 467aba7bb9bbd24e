"""Steps with a time limit: an adapter or a shop that hangs must not hang the proof."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from loadtest.shop import Declined

T = TypeVar("T")

AT_ONCE = 16
"""Buyers who are prepared at the same time."""


class CannotJudge(RuntimeError):
    """A step failed or took too long, so that there is no verdict; says which and why."""


def within(seconds: float, step: str, work: Callable[[], T]) -> T:
    """Return what a step returns.

    Raises:
        CannotJudge: it raised, or took longer.
    """
    [found] = each_within(seconds, step, [None], lambda _: work())
    if isinstance(found, Declined):
        raise CannotJudge(f"{step}: {found}") from found
    return found


def each_within(
    seconds: float, step: str, items: Sequence[Any], work: Callable[[Any], T]
) -> list[T | Declined]:
    """Do a step for each of these, several at a time; `Declined` is a result like any other.

    Raises:
        CannotJudge: one raised something else, or all together took longer.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, T | BaseException]] = queue.SimpleQueue()
    for number in range(len(items)):
        todo.put(number)

    def work_off() -> None:
        while True:
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, work(items[number])))
            except BaseException as error:  # noqa: BLE001 - an adapter may raise anything
                done.put((number, error))

    for _ in range(min(AT_ONCE, len(items))):
        # Daemons: Python does not wait for them at its end.
        threading.Thread(target=work_off, daemon=True).start()
    found: dict[int, T | Declined] = {}
    give_up = time.monotonic() + seconds
    while len(found) < len(items):
        try:
            number, result = done.get(timeout=max(0.0, give_up - time.monotonic()))
        except queue.Empty:
            raise CannotJudge(f"{step} took longer than {seconds:g} s") from None
        if isinstance(result, BaseException) and not isinstance(result, Declined):
            raise CannotJudge(f"{step} failed: {type(result).__name__}: {result}") from result
        found[number] = result
    return [found[number] for number in range(len(items))]
