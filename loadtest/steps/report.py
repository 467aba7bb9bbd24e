"""The report of a run as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.checker import FAIL, Verdict
from loadtest.replay import ReplayFault, compose, marks_of, read_served, units_for_sale
from loadtest.report import Evidence, Story, gather, write
from loadtest.steps.files import RunFiles
from loadtest.steps.judge import UNREADABLE


def write_report(
    path: Path,
    files: RunFiles,
    histories: Sequence[str | Path],
    story: Story,
    verdict: Verdict | None,
) -> None:
    """Write the report of a run to `path`, without charts where its files cannot be read."""
    evidence: Evidence | None = None
    replay: dict[str, Any] | None = None
    try:
        evidence = gather(
            histories,
            during=files.during(),
            final=files.final if files.final.exists() else None,
            faults=files.faults if files.faults.exists() else None,
        )
        if verdict is not None and verdict.verdict == FAIL:
            replay = replay_of(files, histories, story.title, verdict, evidence)
    except UNREADABLE as error:
        story = replace(story, reason=story.reason or str(error))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, story, verdict, evidence, replay)


def replay_of(
    files: RunFiles,
    histories: Sequence[str | Path],
    title: str,
    verdict: Verdict,
    evidence: Evidence,
) -> dict[str, Any] | None:
    """Compose the slow motion of a broken run; None if no moment of a violation is known."""
    marks = marks_of(verdict)
    if not marks:
        return None
    return compose(
        histories,
        title=title,
        marks=marks,
        faults=[ReplayFault(each.name, each.start, each.end) for each in evidence.faults],
        served=read_served(files.served()),
        units=units_for_sale(files.final, histories),
    )
