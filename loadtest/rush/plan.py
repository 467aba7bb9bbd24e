"""What a round is about, who follows it, and how long its steps may take."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from loadtest.finished import Report
from loadtest.rush.release import Address, Release
from loadtest.shop import Level

if TYPE_CHECKING:
    from loadtest.rush.result import RushResult

T = TypeVar("T")

AT_ONCE = 16
"""Buyers who are prepared at the same time."""


SCENES = (Level.STOCK, Level.VOUCHERS, Level.CARTS, Level.CANCEL)
"""What the buyers of a round may fight for, or give back twice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A round: `units` are of the stock, or how often the voucher may be used."""

    address: Address
    scene: Level
    units: int
    buyers: int
    release: Release = Release.LAST_BYTE

    @property
    def stock(self) -> int:
        """The units of the sale; where they are not fought for, there are plenty."""
        return self.units if self.scene in (Level.STOCK, Level.CANCEL) else 2 * self.buyers + 1


@dataclass(frozen=True, slots=True)
class Observer:
    """Follows a rush as it goes on; by default, ignores it.

    Attributes:
        step: called with what is done next.
        round: called after each round with the result so far.
        call: called with every call that is over.
    """

    step: Callable[[str], None] = lambda _: None
    round: Callable[[RushResult], None] = lambda _: None
    call: Report = lambda _: None

    def within(self, where: Callable[[], str]) -> Observer:
        """Return an observer that says at each step where it is."""
        return replace(self, step=lambda text: self.step(f"{where()}: {text}"))


class CannotJudge(RuntimeError):
    """A step failed or took too long, so that there is no verdict; says which and why."""


def within(seconds: float, step: str, work: Callable[[], T]) -> T:
    """Return what a step returns.

    Raises:
        CannotJudge: it raised, or took longer.
    """
    [found] = each_within(seconds, step, [None], lambda _: work())
    return found


def each_within(
    seconds: float, step: str, items: Sequence[Any], work: Callable[[Any], T]
) -> list[T]:
    """Do a step for each of these, several at a time, and return what it returns.

    Raises:
        CannotJudge: one raised, or all together took longer.
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
            raise CannotJudge(f"{step} took longer than {seconds:g} s") from None
        if error is not None:
            raise CannotJudge(f"{step} failed: {type(error).__name__}: {error}") from error
    return [found[number] for number in range(len(items))]
