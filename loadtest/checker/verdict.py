"""The result of judging a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"

NAMES = {
    "P1": "no oversell",
    "P2": "conservation",
    "P3": "no lost order",
    "P4": "no phantom order",
    "P5": "no duplicate",
    "P6": "bounds",
    "P7": "no phantom rejection",
    "P8": "real-time order",
    "P9": "fencing",
    "P10": "follow-up complete",
    "P11": "at most one charge",
    "P12": "recovery",
    "P13": "not vacuous",
    "P14": "price",
    "P15": "window and pause",
    "P16": "hold and expiry",
    "P17": "all or nothing",
    "P18": "privacy",
    "P19": "delivery",
    "P20": "true answers",
    "P21": "contract",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one property came to; `evidence` holds the first few things that broke it."""

    id: str
    verdict: str
    detail: str
    evidence: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The property in words."""
        return NAMES[self.id]

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
    """The findings of a run, its figures, and what followed each fault."""

    properties: list[Finding]
    counts: dict[str, int]
    aftermaths: list[Aftermath] = field(default_factory=list)

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
            "counts": self.counts,
        }


def overall(verdicts: Iterable[str]) -> str:
    """Any fail → fail; else any unknown, or nothing judged at all → unknown; else pass."""
    seen = set(verdicts)
    if FAIL in seen:
        return FAIL
    return PASS if seen == {PASS} else UNKNOWN
