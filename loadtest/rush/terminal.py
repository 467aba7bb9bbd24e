"""A rush in the terminal: where it is now, and each round as soon as it is over."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from loadtest.rush.plan import Observer
from loadtest.rush.result import RushResult

CLEAR = "\r\x1b[2K"


class Terminal:
    """Shows steps in one line that the next one replaces, or line by line in a file or a pipe.

    Attributes:
        observer: shows the steps of a rush, and its rounds.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self.observer = Observer(self.step, self.round)

    def step(self, text: str) -> None:
        """Show what is done next."""
        if not self._live:
            self.line(f"{time.strftime('%H:%M:%S')} {text}")
            return
        width = shutil.get_terminal_size().columns - 1
        self._write(CLEAR + (text if len(text) <= width else f"{text[: width - 1]}…"))

    def line(self, text: str) -> None:
        """Show a line that stays."""
        self.clear()
        self._write(f"{text}\n")

    def clear(self) -> None:
        """Remove the line of the last step."""
        if self._live:
            self._write(CLEAR)

    def round(self, result: RushResult) -> None:
        """Show the last round."""
        number, last = len(result.rounds), result.rounds[-1]
        outcome = ", ".join(last.broken) or last.outcome
        units = f"{last.sold} units of {last.final.total} sold"
        self.line(f"round {number}: {last.plan.scene}, {units}; {outcome}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
