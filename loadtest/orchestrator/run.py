"""The order of the steps of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager


class Orchestrator(ABC):
    """One run from its plan to its report; subclasses fill in the steps."""

    def run(self) -> None:
        """Plan the run and conduct it."""
        self.plan()
        self.conduct()

    def conduct(self) -> None:
        """Let buyers and faults at the shop, wait until it is at rest, judge it, and report."""
        # Faults end before the load does: buyers have to be served again after the last one.
        with self.load(), self.faults():
            self.watch()
        self.drain()
        self.judge()
        self.report()

    @abstractmethod
    def plan(self) -> None:
        """Open the sales, or look at the one that was chosen."""

    @abstractmethod
    def load(self) -> AbstractContextManager[None]:
        """Let the buyers act; stop them on exit."""

    @abstractmethod
    def faults(self) -> AbstractContextManager[None]:
        """Inject the planned faults and restock; on exit, heal the last fault."""

    @abstractmethod
    def watch(self) -> None:
        """Follow the run until its load is over."""

    @abstractmethod
    def drain(self) -> None:
        """Wait until the follow-up of every order is done."""

    @abstractmethod
    def judge(self) -> None:
        """Compare every answer with the shop's final state."""

    @abstractmethod
    def report(self) -> None:
        """Write what was found."""
