"""`python -m loadtest.checker HISTORY… --snapshot FINAL`: exit 0 pass, 1 fail, 2 unknown.

`--report` and `--replay` also write the report and the run in slow motion, of any client's files.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from loadtest.checker import (
    FAIL,
    PASS,
    PROPERTIES,
    FaultLogError,
    HistoryError,
    SnapshotError,
    Verdict,
    judge,
)
from loadtest.replay import ServedError, compose, marks_of, read_served, write_page
from loadtest.report import Story, gather, write
from loadtest.shops.flash_sale import SPECIFICATION

EXIT_CODES = {PASS: 0, FAIL: 1}
NOT_JUDGED = 2

UNREADABLE = (HistoryError, SnapshotError, FaultLogError, ServedError, OSError, ValueError)


def main(arguments: list[str] | None = None) -> int:
    """Judge the files named on the command line and print the findings."""
    options = _parser().parse_args(arguments)
    evidence = {"during": options.during, "faults": options.faults}
    try:
        verdict = judge(
            options.histories,
            options.snapshot,
            ledger=options.ledger,
            deliveries=options.deliveries,
            terms=options.terms,
            properties=options.properties,
            specification=SPECIFICATION,
            **evidence,
        )
        if options.report:
            gathered = gather(options.histories, final=options.snapshot, **evidence)
            write(options.report, Story(options.title), verdict, gathered)
        if options.replay:
            write_page(options.replay, _replay(options, verdict))
    except UNREADABLE as error:
        print(f"cannot be judged: {error}", file=sys.stderr)
        return NOT_JUDGED
    if options.json:
        print(json.dumps(verdict.to_json(), indent=2))
    else:
        for finding in verdict.properties:
            print(f"{finding.id:4} {finding.name:22} {finding.verdict:8} {finding.detail}")
        print(verdict.verdict)
    return EXIT_CODES.get(verdict.verdict, NOT_JUDGED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.checker", description=__doc__)
    parser.add_argument("histories", nargs="+", help="history files of one run")
    parser.add_argument("--snapshot", help="the final snapshot")
    parser.add_argument("--during", nargs="*", default=[], help="snapshots taken during the run")
    parser.add_argument("--ledger", help="the payment provider's ledger")
    parser.add_argument("--deliveries", help="what the mail server took")
    parser.add_argument("--terms", help="how the sales' terms changed")
    parser.add_argument("--faults", help="the log of injected faults")
    parser.add_argument("--served", nargs="*", default=[], help="what the shop recorded")
    parser.add_argument("--properties", nargs="*", default=list(PROPERTIES), help="those to judge")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--report", help="write the report to this file")
    parser.add_argument("--replay", help="write the run in slow motion to this file")
    parser.add_argument("--title", default="A run", help="title of both")
    return parser


def _replay(options: argparse.Namespace, verdict: Verdict) -> dict[str, object]:
    return compose(
        options.histories,
        title=options.title,
        marks=marks_of(verdict),
        served=read_served(map(Path, options.served)),
    )


if __name__ == "__main__":
    sys.exit(main())
