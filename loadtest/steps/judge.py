"""The verdict on a run from its files, and its report as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.checker import FAIL, FaultLogError, HistoryError, SnapshotError, Verdict, judge
from loadtest.replay import ServedError, compose, marks_of, read_served, units_for_sale
from loadtest.report import Evidence, Story, gather, write
from loadtest.shops.flash_sale import SPECIFICATION
from loadtest.steps.files import RunFiles

# Evidence that cannot be read leaves the verdict unknown.
UNREADABLE = (HistoryError, SnapshotError, FaultLogError, ServedError, OSError)


class Judged(NamedTuple):
    """A verdict; None if there is none, with the reason."""

    verdict: Verdict | None
    reason: str = ""


def judge_run(
    files: RunFiles, histories: Sequence[str | Path], not_judged: Mapping[str, str], **more: Any
) -> Judged:
    """Judge a run but for these properties; never fails, but says why there is no verdict.

    Args:
        files: of the run.
        histories: of its buyers.
        not_judged: the properties that it says nothing about, and why not.
        more: further arguments of the checker's `judge`.
    """
    try:
        verdict = judge(
            histories,
            files.final,
            during=files.during(),
            ledger=_existing(files.ledger),
            deliveries=_existing(files.deliveries),
            terms=_existing(files.terms),
            faults=_existing(files.faults),
            not_judged=not_judged,
            specification=SPECIFICATION,
            **more,
        )
    except UNREADABLE as error:
        return Judged(None, str(error))
    return Judged(verdict)


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


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
        faults=evidence.faults,
        served=read_served(files.served()),
        units=units_for_sale(files.final, histories),
    )
