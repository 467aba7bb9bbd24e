"""Repeated readings of one server, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

LATE = 1.0
"""Seconds without an answer after which a server counts as away."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source says at one moment.

    Attributes:
        up: it has answered lately.
        value: its last answer, which may be old.
    """

    up: bool
    value: dict[str, Any]


@dataclass(slots=True)
class Source:
    """Reads one server again and again.

    A thread for each, so that a server that hangs delays only its own figures.

    Attributes:
        name: of the thread.
        read: returns the answer.
        errors: exceptions that mean that the server is away.
        pause: returns the seconds until the next reading.
    """

    name: str
    read: Callable[[], dict[str, Any]]
    errors: tuple[type[Exception], ...]
    pause: Callable[[], float]
    _value: dict[str, Any] = field(default_factory=dict)
    _answered: float | None = None
    _failed: bool = False
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to read."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the current reading."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def step(self) -> None:
        """Read once."""
        try:
            self._value = self.read()
        except self.errors:
            self._failed = True
            return
        self._answered, self._failed = time.monotonic(), False

    def now(self) -> Reading:
        """Return the last answer, and whether the server still answers."""
        answered = self._answered
        recent = answered is not None and time.monotonic() - answered < LATE + self.pause()
        return Reading(recent and not self._failed, self._value)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self.step()
                self._end.wait(self.pause())
        finally:
            connection.close()  # this thread's, if it asked the database
