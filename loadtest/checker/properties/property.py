"""What a property is; each is one class, and tables and documents are made from these classes."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from itertools import chain
from typing import ClassVar, NamedTuple

from loadtest.checker.evidence import Evidence
from loadtest.checker.verdict import FAIL, PASS, UNKNOWN, Finding, Problem
from loadtest.shop import Level

# Enough to see the pattern; the number of all is in the detail.
SHOWN = 10

ONE_OF_MANY = re.compile(r"(?<![\d,.])1 ((?:\w+ed )?\w+)s\b")
"""A noun in the plural after the number one."""


class Need(StrEnum):
    """What a run must have for some properties; the value says why there is no verdict without."""

    SOLD_OUT = "no refusal says “sold out” and nothing else"
    PROMISES = "what the shop's answers promise is not known here"
    FENCING = "no fencing token is used"
    FAULTS = "no fault is injected"
    CARTS = "no buyer of this run fills a cart"
    PEEPERS = "no buyer of this run asks for another buyer's order"
    BILLS = "no cart changes while it is being ordered"
    MAILS = "the mails are not received here"
    DRAWS = "no buyer of this run enters a draw"


class Check(NamedTuple):
    """One way to break a property: each row that the query finds is a problem.

    Attributes:
        says: the evidence, with columns of the query in braces.
        query: finds the problems; its columns are their facts. What `Evidence.locate` looks for
            tells when it happened; `calls` are rows of the history, with commas between them.
        certain: whether no later call or snapshot may take it back, so that it is judged while the
            run goes on. A call without an answer is unknown then.
        by_answers: whether it holds as well of a snapshot that has only what buyers were shown of
            their own orders, because the shop's books cannot be read.
    """

    says: str
    query: str
    certain: bool = False
    by_answers: bool = False

    def problems(self, evidence: Evidence) -> Iterator[Problem]:
        """What breaks the property in this way."""
        for facts in evidence.facts(self.query):
            rows = str(facts.get("calls", "")).split(",")
            yield Problem(self.says, facts, tuple(int(row) for row in rows if row))


class Property(ABC):
    """One thing that must hold in every run.

    Attributes:
        id, name: P1 and the like, and what it is called.
        level: that a shop must offer to be judged by it.
        needs: what the run must have as well; None if nothing.
        asks: what must be so, in one sentence, without background.
        fails: what it catches.
        planted: the violation that the checker's tests plant to see it fail.
        counts: query of one row, the figures of the detail.
        good: the detail of a pass, with these figures in braces.
        nothing: why it is unknown where the first figure is 0; empty if that is a pass as well.
        checks: the ways in which it can be broken.
    """

    id: ClassVar[str]
    name: ClassVar[str]
    level: ClassVar[Level]
    needs: ClassVar[Need | None] = None
    asks: ClassVar[str]
    fails: ClassVar[str]
    planted: ClassVar[str]
    counts: ClassVar[str]
    good: ClassVar[str]
    nothing: ClassVar[str] = ""
    checks: ClassVar[tuple[Check, ...]] = ()

    def judge(self, evidence: Evidence) -> Finding:
        """Judge the run; unknown without a final read."""
        if not evidence.is_final:
            return self.unknown("no final snapshot")
        why = self.missing(evidence)
        return self.unknown(why) if why else self._judge(evidence)

    def judge_answers(self, evidence: Evidence) -> Finding:
        """Judge what buyers were answered, where the shop's books cannot be read."""
        if not evidence.is_final:
            return self.unknown("nobody asked again when all was at rest")
        figures = next(evidence.facts(self.counts))
        if self.nothing and not next(iter(figures.values())):
            return self.unknown(self.nothing)
        checks = [check for check in self.checks if check.certain or check.by_answers]
        problems = chain.from_iterable(check.problems(evidence) for check in checks)
        return self.judged(evidence, problems, f"{self.good.format(**figures)}, by answers alone")

    def missing(self, evidence: Evidence) -> str:
        """Say what the evidence lacks for a verdict; empty if nothing."""
        return ""

    def _judge(self, evidence: Evidence) -> Finding:
        figures = next(evidence.facts(self.counts))
        if self.nothing and not next(iter(figures.values())):
            return self.unknown(self.nothing)
        return self.judged(evidence, self.problems(evidence), self.good.format(**figures))

    def problems(self, evidence: Evidence) -> Iterator[Problem]:
        """What breaks it."""
        for check in self.checks:
            yield from check.problems(evidence)

    def so_far(self, evidence: Evidence) -> Iterator[Problem]:
        """What breaks it while the run goes on; the verdict finds it again."""
        for check in self.checks:
            if check.certain:
                yield from check.problems(evidence)

    def why_not(self, levels: Collection[Level], has: Collection[Need]) -> str:
        """Say why it is not judged in a shop of these levels and a run that has this; or nothing.

        Args:
            levels: that the shop offers.
            has: what the run has.
        """
        if self.level not in levels:
            return f"the shop does not offer {self.level}"
        return self.needs.value if self.needs and self.needs not in has else ""

    def judged(self, evidence: Evidence, problems: Iterable[Problem], good: str) -> Finding:
        """Fail with the first problems, or pass with `good` as the detail."""
        shown: list[Problem] = []
        number = 0
        for problem in problems:
            number += 1
            if number <= SHOWN:
                shown.append(evidence.locate(problem))
        if not number:
            return self.passed(good)
        what = "problem" if number == 1 else "problems"
        return Finding(self.id, self.name, FAIL, f"{number} {what}: {shown[0].text}", shown)

    def passed(self, detail: str) -> Finding:
        """Pass with a detail whose nouns are in the plural, whatever their number."""
        return Finding(self.id, self.name, PASS, ONE_OF_MANY.sub(r"1 \1", detail))

    def unknown(self, why: str) -> Finding:
        """Say why it could not be judged, which is never a pass."""
        return Finding(self.id, self.name, UNKNOWN, why)
