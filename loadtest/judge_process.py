"""Judge a run in a process of its own, as its `run.json` says.

    python -m loadtest.judge_process FOLDER

Judging a large run takes seconds of computing, during which neither Locust's page nor the control
room would respond. The process writes `verdict.json` and `report.html`, and prints the verdict.
With `so-far` as a second argument it judges a run that goes on, and prints what is broken so far.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from loadtest.checker import FAIL, Broken, Verdict, judge_so_far
from loadtest.checker.judging import UNREADABLE, judge_run, write_verdict
from loadtest.checker.report import Description
from loadtest.files import RunFolder

SO_FAR = "so-far"

JUDGING, JUDGING_SO_FAR = 600.0, 60.0
"""Seconds that judging may take when a run has ended, and while it goes on."""


class Described(Protocol):
    """A run as its plan describes it when its load has ended, or while it goes on."""

    @property
    def faults(self) -> Sequence[str]:
        """Names of the faults that are injected."""

    @property
    def not_judged(self) -> Mapping[str, str]:
        """The properties that it says nothing about, and why not."""

    @property
    def how(self) -> Mapping[str, Any]:
        """Further arguments of the checker."""

    @property
    def doubt(self) -> str:
        """Why a run that broke nothing says nothing; empty if it does."""

    @property
    def more(self) -> Mapping[str, Any]:
        """Further members of the verdict's document."""

    def describe(self, reason: str, look: str) -> Description:
        """Return what its files do not say.

        Args:
            reason: why there can be no verdict; empty if there may be one.
            look: a command that shows the books of the main sale; empty if none is known.
        """


class Wanted(msgspec.Struct):
    """What is to be judged, as a run describes it.

    Attributes:
        description: what its files do not say.
        elsewhere: histories of its buyers that are in another folder.
        faults: whether faults are injected.
        not_judged, how, doubt, more: see `Described`.
    """

    description: Description
    elsewhere: list[str]
    faults: bool
    not_judged: dict[str, str]
    how: dict[str, Any]
    doubt: str
    more: dict[str, Any]

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        plan: Described,
        reason: str = "",
        look: str = "",
        **more: Any,
    ) -> Wanted:
        """Describe a run by its plan; the further arguments are those of `judge_apart`."""
        return cls(
            replace(plan.describe(reason, look), **more),
            list(map(str, folder.elsewhere)),
            bool(plan.faults),
            dict(plan.not_judged),
            dict(plan.how),
            plan.doubt,
            dict(plan.more),
        )


_VERDICT = msgspec.json.Decoder(Verdict)
_BROKEN = msgspec.json.Decoder(list[Broken])


def judge_apart(
    folder: RunFolder,
    plan: Described,
    reason: str,
    look: str,
    **more: Any,
) -> Verdict:
    """Judge a run that has ended, and write the verdict and its page; never fails.

    Args:
        folder: of the run.
        plan: of the run, with the ids of its sales.
        reason: why there can be no verdict; empty if there may be one.
        look: a command that shows the books of the main sale.
        more: further members of its `Description`, which its plan does not know.
    """
    wanted = Wanted.of(folder, plan, reason, look, **more)
    try:
        done = _judge(folder, wanted, seconds=JUDGING)
        if done.returncode == 0:
            return _VERDICT.decode(done.stdout)
        problem = (done.stderr.strip().splitlines() or [str(done.returncode)])[-1]
    except subprocess.TimeoutExpired:
        problem = f"judging took more than {JUDGING:.0f} s"
    verdict = Verdict(reason=f"the judge did not finish: {problem}")
    write_verdict(folder, replace(wanted.description, reason=verdict.reason), verdict, None)
    return verdict


def broken_so_far(folder: RunFolder, plan: Described) -> tuple[list[Broken], str]:
    """Return what a run has broken that goes on, and why that is not known at this moment."""
    wanted = Wanted.of(folder, plan)
    try:
        done = _judge(folder, wanted, SO_FAR, seconds=JUDGING_SO_FAR)
    except subprocess.TimeoutExpired:
        return [], ""
    return (_BROKEN.decode(done.stdout), "") if done.returncode == 0 else ([], done.stderr.strip())


def _judge(
    folder: RunFolder, wanted: Wanted, *more: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Judge in a process of its own. Raises `TimeoutExpired`."""
    folder.describe(msgspec.to_builtins(wanted))
    return subprocess.run(
        [sys.executable, "-m", "loadtest.judge_process", str(folder.path), *more],
        cwd=Path(__file__).resolve().parents[1],
        timeout=seconds,
        capture_output=True,
        text=True,
        check=False,
    )


def main(path: str, *more: str) -> int:
    """Judge one run, which has ended or goes on."""
    folder = RunFolder(Path(path))
    run = msgspec.convert(folder.description(), Wanted)
    folder.elsewhere = [Path(path) for path in run.elsewhere]
    return _so_far(folder, run) if SO_FAR in more else _conclude(folder, run)


def _conclude(folder: RunFolder, run: Wanted) -> int:
    """Write the verdict, which is *unknown*, with a reason, if the run cannot be judged."""
    verdict = Verdict(reason=run.description.reason)
    if not verdict.reason:
        verdict = judge_run(folder, run.not_judged, **run.how)
    if run.doubt and verdict.verdict != FAIL:
        verdict = replace(verdict, reason=run.doubt)
    description = replace(run.description, reason=verdict.reason)
    write_verdict(folder, description, verdict, folder.report, **run.more)
    print(msgspec.json.encode(verdict, enc_hook=str).decode())
    return 0


def _so_far(folder: RunFolder, run: Wanted) -> int:
    """Print what is broken so far as JSON; nothing if a file changed while it was read."""
    os.nice(10)  # leaves the machine to the run
    try:
        found = judge_so_far(folder, not_judged=run.not_judged, faults=run.faults)
    except UNREADABLE:
        return 1
    print(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
