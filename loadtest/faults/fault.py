"""The interface of a fault."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from loadtest.faults.target import Target

POLL = 0.05
"""Seconds between two looks at something that is awaited."""


class FaultFailed(Exception):
    """The fault could not be injected, or not be healed; says why."""


class Fault(ABC):
    """One injection: made, injected, healed, thrown away.

    Attributes:
        name: on the command line and in the log.
        what: is done, in a few words.
        expected: of the shop.
        needs: what the target must have, of the names in `target`.
        lasts: seconds between injection and healing, drawn from this range.
        wants_stock: it shows something only in a shop that sells.
        did: what was really done: pids, counts. It goes into the log.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    expected: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    lasts: ClassVar[tuple[float, float]] = (2.0, 4.0)
    wants_stock: ClassVar[bool] = False

    def __init__(self, target: Target, random: Random) -> None:
        self.target = target
        self.random = random
        self.did: dict[str, Any] = {}

    @abstractmethod
    def inject(self) -> None:
        """Make it happen. Raises `FaultFailed` if it cannot be made."""

    @abstractmethod
    def heal(self) -> None:
        """Undo it, and return when what was hit serves again; also after a failed injection."""


def wait_until(what: str, ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when `ready()`. Raises `FaultFailed` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise FaultFailed(f"waited {seconds:g} s in vain: {what}")
        time.sleep(POLL)
