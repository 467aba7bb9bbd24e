"""Judging a run, and writing its verdict as `verdict.json` and as one HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.checker import FaultLogError, HistoryError, SnapshotError, Verdict, judge
from loadtest.checker.report import Description, Evidence, document, gather, write
from loadtest.files import RunFiles

# Evidence that cannot be read leaves the verdict unknown.
UNREADABLE = (HistoryError, SnapshotError, FaultLogError, OSError)


def judge_run(files: RunFiles, not_judged: Mapping[str, str], **more: Any) -> Verdict:
    """Judge a run but for these properties; never fails, but says why there is no verdict.

    How it was judged is written next to its files, so that `judge_again` judges it alike.

    Args:
        files: of the run.
        not_judged: the properties that it says nothing about, and why not.
        more: further arguments of the checker's `judge`.
    """
    how = {"not_judged": dict(not_judged), "elsewhere": list(map(str, files.elsewhere)), **more}
    try:
        files.how.write_text(json.dumps(how, indent=2) + "\n")
        verdict = judge(files, not_judged=not_judged, **more)
    except UNREADABLE as error:
        return Verdict(reason=str(error))
    if not files.final.exists():
        return Verdict(reason=f"{files.final} does not exist")
    return verdict


def judge_again(files: RunFiles, **more: Any) -> Verdict:
    """Judge the files of a run as they were judged when it ended, if they say how.

    Raises:
        ValueError: what says how cannot be understood.
    """
    how: dict[str, Any] = {"not_judged": {}}
    if files.how.exists():
        how = json.loads(files.how.read_text())
        files.elsewhere = [Path(path) for path in how.pop("elsewhere") if Path(path).exists()]
    try:
        verdict = judge(files, **how, **more)
    except UNREADABLE as error:
        return Verdict(reason=str(error))
    except TypeError as error:
        raise ValueError(f"{files.how}: {error}") from error
    if not files.final.exists():
        return Verdict(reason=f"{files.final} does not exist")
    return verdict


def write_verdict(
    files: RunFiles,
    description: Description,
    judged: Verdict,
    page: Path | None,
    *,
    into: Path | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Write `verdict.json`, and the page unless that is None; return the document.

    A page has no charts where the run's files cannot be read.

    Args:
        files: of the run.
        description: what they do not say.
        judged: by the checker.
        page: its file.
        into: another file than the run's own `verdict.json`.
        more: further members of the document.
    """
    evidence: Evidence | None = None
    try:
        evidence = gather(files)
    except UNREADABLE as error:
        description = replace(description, reason=description.reason or str(error))
    verdict_document = document(description, judged, evidence, files) | more
    (into or files.verdict_file).write_text(json.dumps(verdict_document, indent=2) + "\n")
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        write(page, verdict_document, evidence)
    return verdict_document
