"""Ctrl-C, SIGTERM and SIGHUP end a command through its `finally` blocks."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
def shielded() -> Iterator[None]:
    """Ignore these signals inside the block: a second Ctrl-C must not interrupt the clean-up."""
    if threading.current_thread() is not threading.main_thread():  # gets no signals
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
