"""A proof as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.proof.plan import Plan
from lab.proof.result import Result
from loadtest import steps
from loadtest.report import Story
from loadtest.steps import RunFiles


def write_report(path: Path, plan: Plan, result: Result, files: RunFiles) -> None:
    """Write the report of a proof to `path`."""
    run = plan.of_run
    facts: dict[str, Any] = run.facts(str(result.sale))
    if run.arrivals and result.late is not None:
        facts["buyers"] += f" ({result.late} late, {result.unstarted} never)"
    facts["pace"] = result.pace
    if plan.left_out:
        facts["left out"] = ", ".join(plan.left_out)
    story = Story(run.title, run.repeat, facts, result.reason, run.buyers)
    steps.write_report(path, files, files.histories(), story, result.verdict)
