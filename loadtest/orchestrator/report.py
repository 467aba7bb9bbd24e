"""The report of a run as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loadtest.checker import Verdict
from loadtest.orchestrator.files import RunFiles
from loadtest.orchestrator.judge import UNREADABLE
from loadtest.report import Evidence, Story, gather, write


def write_report(
    path: Path,
    files: RunFiles,
    histories: Sequence[str | Path],
    story: Story,
    verdict: Verdict | None,
) -> None:
    """Write the report of a run to `path`, without charts where its files cannot be read."""
    evidence: Evidence | None = None
    try:
        evidence = gather(
            histories,
            during=files.during(),
            final=files.final if files.final.exists() else None,
            faults=files.faults if files.faults.exists() else None,
        )
    except UNREADABLE as error:
        story = replace(story, reason=story.reason or str(error))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, story, verdict, evidence)
