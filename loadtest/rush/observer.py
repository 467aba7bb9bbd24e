"""Who follows a rush while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from loadtest.finished import Report


@dataclass(frozen=True, slots=True)
class Observer:
    """Is told of a rush as it goes on; by default, ignores it.

    Attributes:
        step: called with what is done next.
        call: called with every call that is over.
    """

    step: Callable[[str], None] = lambda _: None
    call: Report = lambda _: None

    def within(self, where: Callable[[], str]) -> Observer:
        """Return an observer that says at each step where it is."""
        return replace(self, step=lambda text: self.step(f"{where()}: {text}"))


NOBODY = Observer()
