"""Judge the run in a folder: `python -m loadtest.ui.judge FOLDER`.

It reads `run.json` and writes `verdict.json` and `report.html`. With what to judge as a second
argument, it judges a run that goes on and prints what is broken so far.

A separate process, because judging a large run takes seconds of computing, during which Locust's
page would not respond.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from loadtest.checker import UNKNOWN, judge_so_far
from loadtest.report import Story
from loadtest.steps import Judged, judge_run, write_report
from loadtest.steps.files import RunFolder
from loadtest.steps.judge import UNREADABLE


class Asked(msgspec.Struct, frozen=True):
    """The histories to read, the properties to leave out, and whether faults are injected."""

    histories: list[str]
    not_judged: list[str]
    faults: bool


def main(path: str) -> int:
    """Judge one run; the verdict is *unknown*, with a reason, if it cannot be judged."""
    folder = RunFolder(Path(path))
    run: dict[str, Any] = json.loads((folder.path / "run.json").read_text())
    judged = Judged(None, run["reason"])
    if not judged.reason:
        judged = judge_run(folder, run["histories"], run["not_judged"])
    verdict, reason = judged
    story = Story(run["title"], run["repeat"], run["facts"], reason, run["buyers"])
    write_report(folder.report, folder, run["histories"], story, verdict)
    document = verdict.to_json() if verdict else {"verdict": UNKNOWN, "properties": []}
    (folder.path / "verdict.json").write_text(
        json.dumps({**document, "reason": reason, "title": run["title"]}, indent=2) + "\n"
    )
    return 0


def so_far(path: str, asked: str) -> int:
    """Print what is broken so far as JSON; nothing if a file changed while it was read."""
    wanted = msgspec.json.decode(asked, type=Asked)
    try:
        found = judge_so_far(
            wanted.histories,
            RunFolder(Path(path)).during(),
            not_judged=wanted.not_judged,
            faults=wanted.faults,
        )
    except UNREADABLE:
        return 1
    print(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.nice(10)  # leaves the machine to the run
        sys.exit(so_far(*sys.argv[1:]))
    sys.exit(main(sys.argv[1]))
