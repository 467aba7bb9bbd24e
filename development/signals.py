"""Ctrl-C, SIGTERM and SIGHUP end a command through its `finally` blocks."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_asked: int | None = None
"""The signal that asked this process to end."""


def end_on_signals() -> None:
    """Turn the signals that end a process into exceptions, so that it stops what it started.

    SIGINT is set too: shells start background commands with SIGINT ignored.
    """

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Handle the ending signals in another way inside the block."""
    if threading.current_thread() is not threading.main_thread():  # gets no signals
        yield
        return
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def shielded() -> AbstractContextManager[None]:
    """Ignore these signals inside the block: a second Ctrl-C must not interrupt the clean-up."""
    return handled_by(signal.SIG_IGN)


def first_on_signals(action: Callable[[], None]) -> AbstractContextManager[None]:
    """Let these signals do something inside the block before their exception unwinds the stack."""
    before = {number: signal.getsignal(number) for number in ENDING}

    def end(number: int, frame: FrameType | None) -> None:
        global _asked
        _asked = number
        action()
        signal.signal(number, before[signal.Signals(number)])
        signal.raise_signal(number)

    return handled_by(end)


def leave_if_asked() -> None:
    """Raise `SystemExit` if one of these signals has come.

    Its exception can get lost where it interrupts code that cleans up and fails at that.
    """
    if _asked is not None:
        sys.exit(128 + _asked)
