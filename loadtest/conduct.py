"""A proof's table of contents: open, load, break, rest, ask again, read, judge, report.

A run of our shop's buyers is a `loadtest.sale_run.SaleRun`: `manage.py prove`, its controls, the
soak and the control room conduct a `lab.proof.run.Proof`, which has the shop's processes at hand,
and Locust with and without its page a `loadtest.ui.run.PageRun`. A rush on any shop is one
`loadtest.rush.round` after the other.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, NamedTuple

from loadtest.checker.snapshot import Terms
from loadtest.steps import RunFiles, ask_again, write_terms


class Books(NamedTuple):
    """What must come to rest: open follow-ups, and figures that no longer change."""

    owed: int
    figures: tuple[int, ...]


class Conductor(ABC):
    """One run from its opening to its report; subclasses fill in the steps.

    Attributes:
        files: of the run.
        patience: seconds for the shop to come to rest; what is open then is judged as it is.
        pause: seconds between two looks at whether it has.
    """

    files: RunFiles
    patience: float
    pause: ClassVar[float] = 0.5

    def run(self) -> None:
        """Open the run and conduct it."""
        self.open()
        self.conduct()

    def conduct(self) -> None:
        """Let buyers and faults at the shop, wait until it is at rest, judge it, and report."""
        # Faults end before the load does: buyers have to be served again after the last one.
        with self.load(), self.faults():
            self.watch()
        self.recover()
        if self.rest() and (repeats := self.repeats()) is not None:
            address, seed = repeats
            ask_again(self.files, self.histories(), address, seed)
            self.rest()
        if terms := list(self.terms()):
            write_terms(self.files.terms, terms)
        self.read()
        self.judge()
        self.report()

    def rest(self) -> bool:
        """Wait until nothing is pending and nothing changes any more: whether it is so.

        What is open after `patience` is judged as it is.
        """
        start = time.monotonic()
        before: Books | None = None
        while (since := time.monotonic() - start) < self.patience:
            now = self.books(since)
            if now is not None:
                if now == before and not now.owed:
                    return True
                before = now
            time.sleep(self.pause)
        return False

    def histories(self) -> list[str]:
        """The files in which buyers wrote down their calls."""
        return [str(path) for path in self.files.histories()]

    @abstractmethod
    def open(self) -> None:
        """Open the sales, or look at the one that was chosen."""

    @abstractmethod
    def load(self) -> AbstractContextManager[None]:
        """Let the buyers act; stop them on exit."""

    def faults(self) -> AbstractContextManager[None]:
        """Inject the planned faults and restock; on exit, heal the last fault."""
        return nullcontext()

    def watch(self) -> None:  # noqa: B027 - not every run has one
        """Follow the run until its load is over."""

    def recover(self) -> None:  # noqa: B027 - not every run has one
        """Wait until every process that was broken serves again."""

    @abstractmethod
    def books(self, since: float) -> Books | None:
        """Look at what must come to rest, after so many seconds; None if the shop is silent."""

    def repeats(self) -> tuple[tuple[str, int], int] | None:
        """The shop's address and a seed, to ask for some keys again; None if it knows no keys."""
        return None

    def terms(self) -> Iterable[Terms]:
        """How the terms of the run's sales were and changed; none if nobody changes them."""
        return ()

    @abstractmethod
    def read(self) -> None:
        """Write what the shop, its payment provider and its mail server say at the end."""

    @abstractmethod
    def judge(self) -> None:
        """Compare every answer with the shop's final state."""

    def report(self) -> None:  # noqa: B027 - not every run has one
        """Write what was found."""
