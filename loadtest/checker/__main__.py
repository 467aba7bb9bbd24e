"""`python -m loadtest.checker FOLDER`: exit 0 pass, 1 fail, 2 unknown.

The folder holds the files of a run, by any client, under the names that `loadtest/files.py` gives
them, or the folders of several rounds. A run whose folder says how it was judged (`judged.json`) is
judged alike. No shop is asked.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from loadtest.checker import EXIT_CODES, PROPERTIES, UNKNOWN
from loadtest.checker.judging import UNREADABLE, judge_again
from loadtest.checker.report import Description, document, gather, write
from loadtest.checker.report.terminal import verdict_last
from loadtest.checker.verdict import overall
from loadtest.files import RunFiles, new_file

EXAMPLES = 3
"""Violations shown of a property."""


def main(arguments: list[str] | None = None) -> int:
    """Judge the folder named on the command line and print the verdict."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.checker", description=__doc__)
    parser.add_argument("folder", type=Path, help="the files of one run, or of several rounds")
    parser.add_argument(
        "--properties",
        nargs="*",
        choices=list(PROPERTIES),
        default=list(PROPERTIES),
        help="those to judge",
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON, one line")
    parser.add_argument("--report", type=new_file, help="write the page to this file")
    parser.add_argument("--title", default="A run", help="title of the page")
    parser.add_argument(
        "--database", type=new_file, help="write the tables that the queries read to this new file"
    )
    options = parser.parse_args(arguments)
    rounds = sorted(options.folder.glob("round-*"), key=lambda path: (len(path.name), path.name))
    if rounds and (options.report or options.database):
        parser.error("--report and --database take the folder of one round")
    outcomes = []
    for folder in rounds or [options.folder]:
        if rounds and not options.json:
            print(f"{folder.name}:")
        outcomes.append(_judge(folder, options))
    return EXIT_CODES[overall(outcomes)]


def _judge(folder: Path, options: argparse.Namespace) -> str:
    """Judge one run, print what came of it, and return pass, fail or unknown."""
    files = RunFiles(folder)
    try:
        verdict = judge_again(files, properties=options.properties, database=options.database)
    except (ValueError, KeyError) as error:
        print(f"cannot be judged: {error}", file=sys.stderr)
        return UNKNOWN
    if verdict.reason:
        print(f"cannot be judged: {verdict.reason}", file=sys.stderr)
        return UNKNOWN
    try:
        evidence = gather(files)
        verdict_document = document(_description(files, options.title), verdict, evidence, files)
        if options.report:
            write(options.report, verdict_document, evidence)
    except UNREADABLE as error:
        print(f"cannot be shown: {error}", file=sys.stderr)
        return UNKNOWN
    if options.json:
        print(json.dumps(verdict_document))
    else:
        for line in verdict_last(verdict_document):
            print(line)
    return str(verdict_document["verdict"])


def _description(files: RunFiles, title: str) -> Description:
    """Return what the run's first verdict said of itself, if there is one."""
    try:
        verdict_document: dict[str, Any] = json.loads(files.verdict_file.read_text())
        look = verdict_document["check"]["look"]
        reason = verdict_document["reason"] if verdict_document["properties"] else ""
        # Of the first section's figures, the files do not tell this one.
        figures = {
            name: verdict_document["result"][name]
            for name in ["handovers"]
            if name in verdict_document["result"]
        }
        return Description(
            verdict_document["title"],
            verdict_document["repeat"],
            verdict_document["facts"],
            reason,
            verdict_document["buyers"],
            look=look,
            figures=figures,
        )
    except (OSError, ValueError, KeyError):
        return Description(title)


if __name__ == "__main__":
    sys.exit(main())
