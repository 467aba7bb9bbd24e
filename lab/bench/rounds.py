"""The runner of all benchmarks: rounds of samples, so that a slow minute affects every case."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Case = TypeVar("Case", bound=Hashable)
Sample = TypeVar("Sample")


def interleaved(
    cases: Sequence[Case],
    rounds: int,
    sample: Callable[[Case], Sample],
    tell: Callable[[str], None],
) -> dict[Case, list[Sample]]:
    """Measure every case once per round; return the samples of each.

    Each round begins with another case, so that none always follows the same one.

    Args:
        cases: what is compared; `str` names one in the progress messages.
        rounds: samples per case.
        sample: measures a case once.
        tell: called with a progress message before each sample.
    """
    found: dict[Case, list[Sample]] = {case: [] for case in cases}
    for number in range(rounds):
        first = number % len(cases)
        for case in (*cases[first:], *cases[:first]):
            tell(f"Round {number + 1} of {rounds}: {case} …")
            found[case].append(sample(case))
    return found
