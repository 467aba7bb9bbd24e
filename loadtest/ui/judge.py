"""Judge the run in a folder, as its `run.json` wants: `python -m loadtest.ui.judge FOLDER`.

It writes `verdict.json` and `report.html`. With `so-far` as a second argument, it judges a run that
goes on and prints what is broken so far.

A separate process, because judging a large run takes seconds of computing, during which Locust's
page would not respond.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from loadtest.checker import Verdict, judge_so_far
from loadtest.files import RunFolder
from loadtest.report import Story
from loadtest.steps import judge_run, write_report
from loadtest.steps.judge import UNREADABLE

SO_FAR = "so-far"


def main(path: str, *more: str) -> int:
    """Judge one run, which has ended or goes on."""
    folder = RunFolder(Path(path))
    run = folder.description()
    folder.elsewhere = [Path(each) for each in run["elsewhere"]]
    return so_far(folder, run) if SO_FAR in more else conclude(folder, run)


def conclude(folder: RunFolder, run: dict[str, Any]) -> int:
    """Write the verdict, which is *unknown*, with a reason, if the run cannot be judged."""
    verdict = Verdict(reason=run["reason"])
    if not verdict.reason:
        verdict = judge_run(folder, run["not_judged"])
    reason = verdict.reason
    story = Story(run["title"], run["repeat"], run["facts"], reason, run["buyers"])
    write_report(folder.report, folder, story, verdict)
    folder.conclude({**verdict.to_json(), "reason": reason, "title": run["title"]})
    return 0


def so_far(folder: RunFolder, run: dict[str, Any]) -> int:
    """Print what is broken so far as JSON; nothing if a file changed while it was read."""
    os.nice(10)  # leaves the machine to the run
    try:
        found = judge_so_far(folder, not_judged=run["not_judged"], faults=run["faults"])
    except UNREADABLE:
        return 1
    print(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
