"""The result of judging a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one property came to; `evidence` holds the first few things that broke it."""

    id: str
    name: str
    verdict: str
    detail: str
    evidence: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The finding as in the result of `prove --json`, with its evidence."""
        return {
            "id": self.id,
            "name": self.name,
            "verdict": self.verdict,
            "detail": self.detail,
            "evidence": self.evidence,
        }


class Rate(NamedTuple):
    """Answers of one kind, how many of them were bad, and how many of these were slow."""

    answers: int
    bad: int
    slow: int = 0

    @property
    def too_many_bad(self) -> bool:
        """True if more than 1 % were bad at once; a single bad answer never is too many."""
        return self.bad - self.slow > max(1, self.answers // 100)

    @property
    def too_many_slow(self) -> bool:
        """True if more than 10 % were bad and slow, which a busy machine alone does not cause."""
        return self.slow > max(1, self.answers // 10)

    def __str__(self) -> str:
        if not self.answers:
            return "-"
        # Rounded down: 99.99 % is not "100 %".
        return f"{10_000 * (self.answers - self.bad) // self.answers / 100:g} %"


@dataclass(frozen=True, slots=True)
class Aftermath:
    """How the shop answered during a fault, and between its recovery time and the next fault.

    Attributes:
        fault: its name.
        start: when it began, in ns.
        rates: of the API's answers and of pages, from its recovery time on.
        during: the same until then.
    """

    fault: str
    start: int
    rates: dict[str, Rate]
    during: dict[str, Rate]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of a run, its figures, and what followed each fault.

    `not_judged` holds the properties, by id, that the run says nothing about, and why not.
    """

    properties: list[Finding]
    counts: dict[str, int]
    aftermaths: list[Aftermath] = field(default_factory=list)
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`fail` if a property is broken, `pass` only if every one that was asked for holds."""
        return overall(finding.verdict for finding in self.properties)

    def __getitem__(self, identity: str) -> Finding:
        return next(each for each in self.properties if each.id == identity)

    def to_json(self) -> dict[str, Any]:
        """Verdict, properties and counts, as in the result of `prove --json`."""
        return {
            "verdict": self.verdict,
            "properties": [finding.to_json() for finding in self.properties],
            "not_judged": dict(self.not_judged),
            "counts": self.counts,
        }


def overall(verdicts: Iterable[str]) -> str:
    """Any fail → fail; else any unknown, or nothing judged at all → unknown; else pass."""
    seen = set(verdicts)
    if FAIL in seen:
        return FAIL
    return PASS if seen == {PASS} else UNKNOWN
