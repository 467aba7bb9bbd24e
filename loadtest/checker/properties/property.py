"""What a property is; each is one class, and tables and documents are made from these classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import ClassVar, NamedTuple

from loadtest.checker.evidence import Evidence
from loadtest.checker.verdict import FAIL, PASS, UNKNOWN, Finding
from loadtest.shop import Level

# Enough to see the pattern; the number of all is in the detail.
SHOWN = 10


class Need(StrEnum):
    """What a run must have for some properties; the value says why there is no verdict without."""

    SOLD_OUT = "no refusal says “sold out” and nothing else"
    PROMISES = "what the shop's answers promise is not known here"
    FENCING = "the strategy has no fencing token"
    FAULTS = "no fault is injected"
    CARTS = "no buyer of this mix fills a cart"
    PEEPERS = "no buyer of this mix asks for another buyer's order"
    WALKERS = "no buyer of this mix has a sale to themselves"
    BILLS = "no cart changes while it is being ordered"
    MAILS = "the mails are not received here"


class Problem(NamedTuple):
    """What breaks a property for good, and what shows it.

    Attributes:
        text: the evidence.
        calls: rows of the history that show it, as few as possible.
        beyond: where the books show it and no call does, the item, and how many units there are.
    """

    text: str
    calls: tuple[int, ...] = ()
    beyond: tuple[str, int] | None = None


def texts(problems: Iterable[Problem]) -> Iterator[str]:
    """The evidence of problems."""
    return (each.text for each in problems)


class Property(ABC):
    """One thing that must hold in every run.

    Attributes:
        id, name: P1 and the like, and what it is called.
        level: that a shop must offer to be judged by it.
        needs: what the run must have as well; None if nothing.
        asks: what must be so, in one sentence, without background.
        fails: what it catches.
        planted: the violation that the checker's tests plant to see it fail.
    """

    id: ClassVar[str]
    name: ClassVar[str]
    level: ClassVar[Level]
    needs: ClassVar[Need | None] = None
    asks: ClassVar[str]
    fails: ClassVar[str]
    planted: ClassVar[str]

    def judge(self, evidence: Evidence) -> Finding:
        """Judge the run; unknown without a final read."""
        return self._judge(evidence) if evidence.is_final else self.unknown("no final snapshot")

    def so_far(self, evidence: Evidence) -> Iterator[Problem]:
        """What breaks it while the run goes on, whatever follows; nothing if only the end tells.

        A call without an answer is unknown here, and no later call or snapshot may take a problem
        back: the verdict finds it again.
        """
        yield from ()

    @abstractmethod
    def _judge(self, evidence: Evidence) -> Finding: ...

    def why_not(self, levels: Collection[Level], has: Collection[Need]) -> str:
        """Say why it is not judged in a shop of these levels and a run that has this; or nothing.

        Args:
            levels: that the shop offers.
            has: what the run has.
        """
        if self.level not in levels:
            return f"the shop does not offer {self.level}"
        return self.needs.value if self.needs and self.needs not in has else ""

    def judged(self, problems: Iterable[str], good: str) -> Finding:
        """Fail with the first problems as evidence, or pass with `good` as the detail."""
        evidence: list[str] = []
        number = 0
        for problem in problems:
            number += 1
            if number <= SHOWN:
                evidence.append(problem)
        if not number:
            return self.passed(good)
        what = "problem" if number == 1 else "problems"
        return Finding(self.id, self.name, FAIL, f"{number} {what}: {evidence[0]}", evidence)

    def passed(self, detail: str) -> Finding:
        """Pass."""
        return Finding(self.id, self.name, PASS, detail)

    def unknown(self, why: str) -> Finding:
        """Say why it could not be judged, which is never a pass."""
        return Finding(self.id, self.name, UNKNOWN, why)
