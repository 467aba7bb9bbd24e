"""Trying mutants: in each copy of the tree one at a time, first on the tests, then on a proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue

from lab.mutants.catalogue import Mutant
from lab.mutants.copy import Copy, Found, private_copy
from lab.mutants.profiles import PROFILES
from lab.mutants.results import Result, Results, Way

LIMITS: dict[Way, float] = {"tests": 300.0, "wide": 1500.0, "proof": 600.0}
"""Seconds that one run may take."""

PACKAGES = {
    "inventory": ("inventory",),
    "serving": ("serving", "shop/tests"),
    "shop": ("shop", "lab/psp"),
    "locking": ("locking", "course"),
}
"""All tests of a package, by the first folder of a mutated file."""

Tell = Callable[[str], None]


class ControlFailed(Exception):
    """Without any bug, a run does not pass: nothing could be said about one with a bug."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run.

    Attributes:
        ways: of looking for a bug, in order; ``wide`` is for what ``tests`` have missed.
        jobs: mutants at a time, each in a copy of its own.
        again: also those that have a result.
        missed: only those that nothing has found so far.
    """

    ways: tuple[Way, ...]
    jobs: int = 1
    again: bool = False
    missed: bool = False


class Runner:
    """Tries mutants and writes down what found them.

    Args:
        plan: what is to be run.
        results: what is known, and where the rest is written.
        tell: takes a line of progress.
    """

    def __init__(self, plan: Plan, results: Results, tell: Tell) -> None:
        self._plan = plan
        self._results = results
        self._tell = tell
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        self._done = 0

    def run(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        """Try mutants; return those that were tried. What is ended early leaves nothing behind.

        Raises:
            ControlFailed: the tests or the proof fail without any bug.
            StackError: a copy or its servers cannot be made.
            NotApplicable: the source has changed since the catalogue was written.
        """
        todo = [each for each in mutants if self._to_do(each)]
        if not todo:
            return []
        jobs = min(self._plan.jobs, len(todo))
        with ExitStack() as cleanup:
            self._tell(f"Copying the tree and starting servers, {jobs} times.")
            copies = [cleanup.enter_context(private_copy()) for _ in range(jobs)]
            self._check_control(copies[0], todo)
            for copy in copies:
                self._copies.put(copy)
            with ThreadPoolExecutor(jobs) as pool:
                running = [pool.submit(self._try, each, len(todo)) for each in todo]
                try:
                    for each in as_completed(running):
                        each.result()
                except BaseException:  # Ctrl-C too: what runs is ended, what waits is dropped
                    for copy in copies:
                        copy.end()
                    pool.shutdown(cancel_futures=True)
                    raise
        return todo

    def _to_do(self, mutant: Mutant) -> tuple[Way, ...]:
        """The ways of looking for a bug that have no result yet."""
        known = {way: self._results.of(mutant, way) for way in self._plan.ways}
        if mutant.hidden:
            known.pop("proof", None)
        found = {way for way, result in known.items() if result and result.outcome == "found"}
        if self._plan.missed:
            return () if found else tuple(known)
        if "tests" in found and not self._plan.again:
            known.pop("wide", None)  # it is for what those have missed
        return tuple(way for way, result in known.items() if self._plan.again or not result)

    def _check_control(self, copy: Copy, todo: Sequence[Mutant]) -> None:
        """Run everything once without a bug."""
        ways = {way for each in todo for way in self._to_do(each)}
        if ways & {"tests", "wide"}:
            tests = sorted({test for each in todo for test in each.tests})
            self._tell(f"Control: {len(tests)} test files without any bug.")
            _require_pass("the tests", copy.run_tests(tests, LIMITS["wide"]))
        for name in sorted({each.profile for each in todo if "proof" in self._to_do(each)}):
            self._tell(f"Control: the proof {name} without any bug.")
            _require_pass(f"the proof {name}", copy.run_proof(PROFILES[name], LIMITS["proof"]))

    def _try(self, mutant: Mutant, of: int) -> None:
        copy = self._copies.get()
        try:
            with copy.with_bug(mutant):
                told = [self._look(copy, mutant, way) for way in self._to_do(mutant)]
        finally:
            self._copies.put(copy)
        self._done += 1
        self._tell(f"[{self._done}/{of}] {mutant.name}: {'; '.join(filter(None, told))}")

    def _look(self, copy: Copy, mutant: Mutant, way: Way) -> str:
        """Look for a planted bug in one way, write down what came of it, and say so."""
        own = self._results.of(mutant, "tests")
        if way == "wide" and own is not None and own.outcome == "found":
            return ""
        began = time.monotonic()
        outcome, by = _found(copy, mutant, way)
        seconds = round(time.monotonic() - began, 1)
        self._results.add(Result(mutant.name, mutant.digest, way, outcome, by, seconds))
        return f"{way} {outcome}{f' ({by})' if by else ''}, {seconds:.0f} s"


def _found(copy: Copy, mutant: Mutant, way: Way) -> Found:
    if way == "proof":
        return copy.run_proof(PROFILES[mutant.profile], LIMITS[way])
    tests = mutant.tests if way == "tests" else PACKAGES[mutant.file.split("/")[0]]
    return copy.run_tests(tests, LIMITS[way])


def _require_pass(what: str, found: Found) -> None:
    outcome, by = found
    if outcome != "missed":
        raise ControlFailed(f"Without any bug, {what} do not pass: {by}")
