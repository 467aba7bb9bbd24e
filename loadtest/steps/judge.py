"""The verdict on a run from its files, and its report as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.checker import FaultLogError, HistoryError, SnapshotError, Verdict, judge
from loadtest.files import RunFiles
from loadtest.report import Evidence, Story, gather, write

# Evidence that cannot be read leaves the verdict unknown.
UNREADABLE = (HistoryError, SnapshotError, FaultLogError, OSError)


def judge_run(files: RunFiles, not_judged: Mapping[str, str], **more: Any) -> Verdict:
    """Judge a run but for these properties; never fails, but says why there is no verdict.

    Args:
        files: of the run.
        not_judged: the properties that it says nothing about, and why not.
        more: further arguments of the checker's `judge`.
    """
    try:
        verdict = judge(files, not_judged=not_judged, **more)
    except UNREADABLE as error:
        return Verdict(reason=str(error))
    if not files.final.exists():
        return Verdict(reason=f"{files.final} does not exist")
    return verdict


def write_report(path: Path, files: RunFiles, story: Story, verdict: Verdict) -> None:
    """Write the report of a run to `path`, without charts where its files cannot be read."""
    evidence: Evidence | None = None
    try:
        evidence = gather(files)
    except UNREADABLE as error:
        story = replace(story, reason=story.reason or str(error))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, story, verdict, evidence)
