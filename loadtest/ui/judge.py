"""Judge the run in a folder, as its `run.json` says: `python -m loadtest.ui.judge FOLDER`.

It writes `verdict.json` and `report.html`. With `so-far` as a second argument, it judges a run that
goes on and prints what is broken so far.

A separate process, because judging a large run takes seconds of computing, during which Locust's
page would not respond.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from loadtest.checker import Verdict, judge_so_far
from loadtest.files import RunFolder
from loadtest.judging import UNREADABLE, judge_run, write_verdict
from loadtest.report import Story
from loadtest.shops.flash_sale import look_of
from loadtest.steps import RunPlan

SO_FAR = "so-far"


class Wanted(msgspec.Struct):
    """What is to be judged, as a run describes it.

    Attributes:
        plan: of the run.
        elsewhere: histories of its buyers that are in another folder.
        reason: why there can be no verdict; empty if there may be one.
    """

    plan: RunPlan
    elsewhere: list[str]
    reason: str


def main(path: str, *more: str) -> int:
    """Judge one run, which has ended or goes on."""
    folder = RunFolder(Path(path))
    run = msgspec.convert(folder.description(), Wanted)
    folder.elsewhere = [Path(each) for each in run.elsewhere]
    return so_far(folder, run.plan) if SO_FAR in more else conclude(folder, run)


def conclude(folder: RunFolder, run: Wanted) -> int:
    """Write the verdict, which is *unknown*, with a reason, if the run cannot be judged."""
    plan, verdict = run.plan, Verdict(reason=run.reason)
    if not verdict.reason:
        verdict = judge_run(folder, plan.not_judged)
    facts = plan.facts(plan.sale)
    look = look_of(plan.sale)
    story = Story(plan.title, plan.repeat, facts, verdict.reason, plan.buyers, look=look)
    write_verdict(folder, story, verdict, folder.report)
    return 0


def so_far(folder: RunFolder, plan: RunPlan) -> int:
    """Print what is broken so far as JSON; nothing if a file changed while it was read."""
    os.nice(10)  # leaves the machine to the run
    try:
        found = judge_so_far(folder, not_judged=plan.not_judged, faults=bool(plan.faults))
    except UNREADABLE:
        return 1
    print(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
