"""From a stream of problems to a finding."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from loadtest.checker.verdict import FAIL, PASS, UNKNOWN, Finding

# Enough to see the pattern; the number of all is in the detail.
SHOWN = 10


def judged(identity: str, problems: Iterable[str], good: str) -> Finding:
    """Fail with the first problems as evidence, or pass with `good` as the detail."""
    evidence: list[str] = []
    number = 0
    for problem in problems:
        number += 1
        if number <= SHOWN:
            evidence.append(problem)
    if not number:
        return Finding(identity, PASS, good)
    what = "problem" if number == 1 else "problems"
    return Finding(identity, FAIL, f"{number} {what}: {evidence[0]}", evidence)


def unknown(identity: str, why: str) -> Finding:
    """The property could not be judged, which is never a pass."""
    return Finding(identity, UNKNOWN, why)


def moment(microseconds: int) -> str:
    """Write a time of the database's clock: `10:20:30.123456`, in UTC."""
    try:
        return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%H:%M:%S.%f}"
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs"
