"""Progress of a running proof, and its end when there is none."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from types import FrameType
from typing import Self

from development import StackError


@dataclass(slots=True)
class Progress:
    """What is going on, for the terminal.

    Attributes:
        fault: what is being injected now; empty if nothing is.
        injected: number of faults so far.
        sale: id of the main sale; empty until it is open.
    """

    phase: str
    seconds: float = 0.0
    pending: int = 0
    fault: str = ""
    injected: int = 0
    sale: str = ""


STALLED = 480.0
"""Seconds that one step of a proof may take. The longest that can still succeed is a fault of a
container: 60 s until it has stopped, 150 s until the shop sells again, and 240 s until all servers
are whole."""

AGAIN = 30.0
"""Seconds after which the clean-up is interrupted too, where it does not end by itself."""


class Stalled(StackError):
    """A step of a proof took too long; the message names it."""


class Deadline:
    """Raises `Stalled` in the main thread when its current step has taken too long.

    A signal's handler raises it there, whatever that thread waits for.

    with Deadline() as deadline:
        deadline.begin("opening the sales")
        ...
        deadline.begin("selling")
        ...
    """

    def __init__(self) -> None:
        self._step, self._seconds = "", STALLED

    def begin(self, step: str, seconds: float = STALLED) -> None:
        """Begin a step; nothing happens if the step of this name is under way already."""
        if step != self._step:
            self._step, self._seconds = step, seconds
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGALRM, self._interrupt)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise Stalled(f"no progress within {self._seconds:g} s: {self._step}")
