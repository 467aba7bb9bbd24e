"""A rush as Locust's load: its users stand for the buyers, who act when all are there."""

from __future__ import annotations

import threading

import gevent

from loadtest.finished import Finished, Report
from loadtest.tally import Tally
from loadtest.ui.rush_run import RushRun


class RushLoad:
    """One rush, in one process whatever the number of Locust's: all requests leave at one moment.

    Args:
        rush: that is followed on the page.
        run: its name.
        report: called with every call that is over.

    Attributes:
        tally: of its purchases.
        everyone_is_here: set when all users have started.
    """

    def __init__(self, rush: RushRun, run: str, report: Report) -> None:
        self.tally = Tally(run)
        self.everyone_is_here = threading.Event()
        self._rush, self._report = rush, report
        self._over = threading.Event()
        self._greenlet = gevent.spawn(self._play)

    def flush(self) -> None:
        """Do nothing: each round writes its own history."""

    def close(self) -> None:
        """End the rush; without a verdict, if it is not over."""
        if not self._over.is_set():
            self._greenlet.kill()
            self._rush.stopped()

    def _play(self) -> None:
        self.everyone_is_here.wait()
        self._rush.play(self._tell)
        self.tally.finished = self._rush.chosen.users
        self._over.set()

    def _tell(self, call: Finished) -> None:
        if call.op == "order":
            self.tally.count(call.outcome)
        self._report(call)
