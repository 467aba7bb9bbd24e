"""The end of a proof that makes no progress, and of parts that were stopped before."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from development.errors import StackError

STALLED = 300.0
"""Seconds that one step of a proof may take. The longest that can still succeed is a fault of the
database's hosts: 60 s for a promotion, and 180 s until the cluster is whole again."""

AGAIN = 30.0
"""Seconds after which the clean-up is interrupted too, where it does not end by itself."""

LOOK = 0.5
"""Seconds between two looks at the clock."""

SIGNAL = signal.SIGUSR1
"""Interrupts what the main thread waits for; its handler raises `Stalled` there."""


class Stalled(StackError):
    """A step of a proof took too long; the message names it."""


class Deadline:
    """Raises `Stalled` in the main thread when its current step has taken too long.

    with Deadline() as deadline:
        deadline.begin("opening the sales")
        ...
        deadline.begin("selling")
        ...
    """

    def __init__(self) -> None:
        self._step, self._seconds, self._since = "", STALLED, time.monotonic()
        self._again: float | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)

    def begin(self, step: str, seconds: float = STALLED) -> None:
        """Begin a step; nothing happens if the step of this name is under way already."""
        if step != self._step:
            self._step, self._seconds, self._since = step, seconds, time.monotonic()

    def __enter__(self) -> Self:
        self._before: Any = signal.signal(SIGNAL, self._interrupt)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end.set()
        self._thread.join()
        signal.signal(SIGNAL, self._before)

    def _watch(self) -> None:
        while not self._end.wait(LOOK):
            now = time.monotonic()
            if now >= (self._again or self._since + self._seconds):
                self._again = now + AGAIN
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, SIGNAL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise Stalled(f"no progress within {self._seconds:g} s: {self._step}")


def ending(
    stop: Callable[[], None], abandon: Callable[[], None] = lambda: None
) -> Callable[..., None]:
    """Return an exit callback for `ExitStack.push`.

    Args:
        stop: waits until the thread has finished its work on the shop.
        abandon: called instead when an exception ends the proof.
    """

    def end(kind: type[BaseException] | None, *_: object) -> None:
        (stop if kind is None else abandon)()

    return end
