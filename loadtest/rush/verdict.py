"""The verdict of a rush as a document, like that of any other run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.checker import PASS, Verdict
from loadtest.checker.judging import write_verdict
from loadtest.checker.report import Description, document, terminal
from loadtest.checker.report.headline import HOLDS, SUMMARIES, counted
from loadtest.files import RunFiles
from loadtest.rush.result import RushResult


def lines(result: RushResult, width: int = 0) -> Iterator[str]:
    """Yield the verdict for a terminal of so many columns; 0: of this one's."""
    verdict_document = document(_description(result), _judged(result), None, _shown(result))
    verdict_document |= _more(result)
    width = width or shutil.get_terminal_size().columns
    yield from (line.text for line in terminal.lines(verdict_document, width))


def write_rush(result: RushResult, files: RunFiles) -> dict[str, Any]:
    """Write the verdict and the page of a rush into its folder, and return the verdict.

    The findings are those of all rounds; the charts and the history are those of the smallest round
    that broke a property, or of the last one.

    Args:
        result: of the rush.
        files: its folder, which has a folder for each round.
    """
    shown = _shown(result) if result.rounds else files
    page, into, more = files.report, files.verdict_file, _more(result)
    return write_verdict(shown, _description(result), _judged(result), page, into=into, **more)


def _shown(result: RushResult) -> RunFiles:
    """Return the files of the round that is shown in full."""
    round_ = result.smallest or (result.rounds[-1] if result.rounds else None)
    return round_.files if round_ is not None else RunFiles(Path())


def _judged(result: RushResult) -> Verdict:
    shown = result.smallest or (result.rounds[-1] if result.rounds else None)
    if shown is None:
        return result.judged
    of_round = shown.verdict
    return replace(result.judged, counts=of_round.counts, histories=of_round.histories)


def _description(result: RushResult) -> Description:
    shown = result.smallest or (result.rounds[-1] if result.rounds else None)
    title, buyers = f"{result.shop} {result.version}".strip(), 0
    if result.rounds:
        plan = result.rounds[0].plan
        size = f"{counted(plan.buyers, 'buyer')}, {counted(plan.units, 'unit')}"
        title, buyers = f"{size} in each of {counted(len(result.rounds), 'round')}", plan.buyers
    return Description(
        title,
        result.repeat,
        reason=result.reason,
        buyers=buyers,
        passed=HOLDS if result.verdict == PASS else SUMMARIES[result.verdict][0],
        look=shown.look_command if shown is not None else "",
        stopped=result.stopped_early,
    )


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the figures of the page's first section: all rounds together."""
    if not rows:
        return {}
    answers = {
        "got": sum(row["answered_sold"] for row in rows),
        "refused": sum(row["refused"] for row in rows),
        "no_answer": sum(row["unknown"] for row in rows),
    }
    return {
        "buyers": sum(answers.values()),
        **answers,
        "units": sum(row["of"] for row in rows),
        "taken": sum(row["sold"] for row in rows),
        "oversold": sum(row["oversold"] for row in rows),
    }


def _more(result: RushResult) -> dict[str, Any]:
    return {
        "verdict": result.verdict,
        "headline": [result.headline],
        "result": _figures(result.rows),
        "rounds": result.rows,
        "remarks": list(result.remarks),
        "not_seen": [rare.to_json() for rare in result.unseen],
        "left_open": list(result.left_open),
    }
