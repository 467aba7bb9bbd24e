"""The result of judging a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import Formatter
from typing import Any, NamedTuple

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
EXIT_CODES = {PASS: 0, FAIL: 1, UNKNOWN: 2}


class Problem(NamedTuple):
    """One thing that broke a property, as data.

    Attributes:
        says: the sentence for people, with the names of its facts in braces (`{opened!t}` is a
            time of the database's clock).
        facts: what it is about, by name: an order, a key, a buyer, the item and its units.
        calls: rows of the history that show it, as few as possible.
        at: when it was broken, in ns of the history's clock; None where nothing tells.
        call: id of the call that broke it; empty if no single one did.
    """

    says: str
    facts: Mapping[str, Any]
    calls: tuple[int, ...] = ()
    at: int | None = None
    call: str = ""

    @property
    def text(self) -> str:
        """The evidence for people."""
        return _SENTENCES.vformat(self.says, (), self.facts).rstrip()


class _Sentences(Formatter):
    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return moment(value) if conversion == "t" else super().convert_field(value, conversion)


_SENTENCES = _Sentences()


def moment(microseconds: int) -> str:
    """Write a time of the database's clock: `10:20:30.123456`, in UTC."""
    try:
        return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%H:%M:%S.%f}"
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one property came to; `problems` holds the first few things that broke it."""

    id: str
    name: str
    verdict: str
    detail: str
    problems: list[Problem] = field(default_factory=list)

    @property
    def evidence(self) -> list[str]:
        """The problems, for people."""
        return [problem.text for problem in self.problems]

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
        recovery: seconds from its end, or from when a buyer then asked for units that were
            available, to the next ok; None if no buyer was served again.
        rates: of the API's answers and of pages, from its recovery time on.
        during: the same until then.
    """

    fault: str
    start: int
    recovery: float | None
    rates: dict[str, Rate]
    during: dict[str, Rate]


class Step(NamedTuple):
    """A call: when, in ms since the run's first one, by whom, and what was asked and answered."""

    at: str
    buyer: str
    asked: str
    answered: str


class History(NamedTuple):
    """The calls that show a broken property, as few as possible, in order of their answers.

    Attributes:
        before: purchases that were accepted before them.
        rows: the calls.
    """

    before: int
    rows: list[Step]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of a run, its figures, and what followed each fault.

    `not_judged` holds the properties, by id, that the run says nothing about, and why not.
    `reason` says why nothing was judged; there are no findings and no figures then. `histories`
    has the smallest history of each broken property, by id, as far as calls show it. `ends` are the
    buyers by what they were told in the end: `got`, `sold_out`, `refused` or `no_answer`.
    """

    properties: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    aftermaths: list[Aftermath] = field(default_factory=list)
    not_judged: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    histories: Mapping[str, History] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`fail` if a property is broken, `pass` only if every one that was asked for holds."""
        return overall(finding.verdict for finding in self.properties)

    @property
    def broken(self) -> list[Finding]:
        """The properties that do not hold."""
        return [finding for finding in self.properties if finding.verdict == FAIL]

    def __getitem__(self, identity: str) -> Finding:
        return next(finding for finding in self.properties if finding.id == identity)

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
