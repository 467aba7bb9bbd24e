"""How a master gets the histories of its workers, which may be on other machines.

A worker writes its history into a folder of its own, and sends what is new twice a second. When
its users have left, it says so, with the tokens of its buyers. The times of a history are those of
the machine's own clock: with each part the worker notes when it asked and when it was answered, and
between the two the master has looked at its clock. The closest of these bounds go with the history
(`Clock` in `loadtest/history.py`).
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import gevent
from locust.runners import MasterRunner, WorkerRunner

from loadtest.files import leave_tokens, take_tokens
from loadtest.history import Clock, set_clock

logger = logging.getLogger(__name__)

PART, CLOCK, WANTED = "history-part", "history-clock", "history-wanted"
"""The messages: from the worker, the answer to it, and from a master that is about to quit."""

SIZE = 1 << 20
"""Bytes of a part, at most."""

PATIENCE = 60.0
"""Seconds in which the histories have to arrive when the load has ended."""

LOOK = 0.1
"""Seconds between two looks whether they have."""


class Sender:
    """A worker's side: sends the history of each of its runs.

    Args:
        runner: of the worker.
    """

    def __init__(self, runner: WorkerRunner) -> None:
        self._runner = runner
        self._temporary = tempfile.TemporaryDirectory(prefix="history-")
        self._path: Path | None = None
        self._run, self._sent, self._runs = "", 0, 0
        self._clock: Clock | None = None
        runner.register_message(CLOCK, self._compare)
        runner.register_message(WANTED, lambda **_: runner.stop())

    def folder(self) -> str:
        """Return a new folder for the history of the next run."""
        self._runs += 1
        return str(Path(self._temporary.name) / str(self._runs))

    def begin(self, run: str, history: Path) -> None:
        """Send this history from now on, as a part of the run of this name."""
        self._run, self._path, self._sent = run, history, 0
        self._send(b"")

    def send(self) -> None:
        """Send what is new."""
        if self._path is None:
            return
        with self._path.open("rb") as file:
            file.seek(self._sent)
            while part := file.read(SIZE):
                self._send(part)
                self._sent += len(part)

    def end(self) -> None:
        """Send the rest with the tokens next to it, and that it is all."""
        if self._path is None:
            return
        self.send()
        clock, tokens = self._clock, take_tokens(self._path.parent)
        self._send(b"", end=self._sent, buyers=tokens, clock=clock and [clock.low, clock.high])
        self._path.unlink()
        self._path = None

    def _send(self, part: bytes, **more: Any) -> None:
        assert self._path is not None
        named = {"run": self._run, "name": self._path.name, "asked": time.monotonic_ns()}
        self._runner.send_message(PART, {**named, "part": part, **more})

    def _compare(self, msg: Any, **_: Any) -> None:
        """Take in what the master's clock showed between the question and now."""
        asked, shown = msg.data["asked"], msg.data["shown"]
        low, high = shown - time.monotonic_ns(), shown - asked
        if self._clock is not None:
            low, high = max(low, self._clock.low), min(high, self._clock.high)
        self._clock = Clock(low, high)


class Collector:
    """A master's side: keeps the histories of one run's workers in its folder.

    Attributes:
        complete: the histories that are whole.
    """

    def __init__(self, runner: MasterRunner) -> None:
        self.complete: list[str] = []
        self._runner = runner
        self._run, self._folder = "", Path()
        self._size: dict[Path, int] = {}
        runner.register_message(PART, self._keep)

    def begin(self, run: str, folder: Path) -> None:
        """Keep the parts of the run of this name in a folder from now on."""
        self._run, self._folder = run, folder
        self.complete, self._size = [], {}

    def histories(self) -> list[str]:
        """Return the histories that are whole."""
        return self.complete

    def wait(self, workers: int) -> None:
        """Wait until the histories of so many workers are whole, or the patience is over."""
        if len(self.complete) < workers:
            # A master that quits does not wait until its workers have stopped.
            for client in list(self._runner.clients):
                self._runner.send_message(WANTED, {}, client)
        give_up = time.monotonic() + PATIENCE
        while len(self.complete) < workers and time.monotonic() < give_up:
            gevent.sleep(LOOK)

    def _keep(self, msg: Any, **_: Any) -> None:
        message = msg.data
        shown = {"asked": message["asked"], "shown": time.monotonic_ns()}
        self._runner.send_message(CLOCK, shown, msg.node_id)
        if message["run"] != self._run:
            return
        path = self._folder / Path(message["name"]).name
        with path.open("ab") as file:
            file.write(message["part"])
        self._size[path] = self._size.get(path, 0) + len(message["part"])
        if "end" not in message:
            return
        if message["clock"] is None or message["end"] != self._size[path]:
            logger.error("The history of %s has gaps, or its clock is not known", msg.node_id)
            return
        set_clock(path, Clock(*message["clock"]))
        leave_tokens(path, message["buyers"])
        self.complete.append(str(path))
