"""The verdict of a rush as `verdict.json` and one page, like that of any other run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loadtest.checker import PASS
from loadtest.files import RunFiles
from loadtest.judging import write_verdict
from loadtest.report import Story
from loadtest.report.headline import SUMMARIES, counted
from loadtest.rush.result import HOLDS, RushResult, summary


def write_rush(result: RushResult, files: RunFiles, units: int, buyers: int) -> dict[str, Any]:
    """Write the verdict and the page of a rush into its folder, and return the verdict.

    The findings are those of all rounds; the charts and the history are those of the smallest round
    that broke a property, or of the last one.

    Args:
        result: of the rush.
        files: its folder, which has a folder for each round.
        units: of the stock in each round.
        buyers: of each round.
    """
    shown = result.smallest or (result.rounds[-1] if result.rounds else None)
    verdict, look, source = result.judged, "", files
    if shown is not None:
        of_round = shown.verdict
        verdict = replace(verdict, counts=of_round.counts, histories=of_round.histories)
        look, source = shown.look, shown.files
    rounds = {f"round {n}": summary(each) for n, each in enumerate(result.rounds, start=1)}
    story = Story(
        f"{counted(buyers, 'buyer')}, {counted(units, 'unit')}, {result.shop} {result.version}",
        result.repeat,
        rounds,
        result.reason,
        buyers,
        HOLDS if result.verdict == PASS else SUMMARIES[result.verdict][0],
        look,
    )
    return write_verdict(
        source,
        story,
        verdict,
        files.report,
        into=files.verdict_file,
        verdict=result.verdict,
        headline=[next(result.lines())],
        not_seen=[each.to_json() for each in result.unseen],
        left_open=list(result.left_open),
    )
