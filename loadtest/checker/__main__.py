"""`python -m loadtest.checker FOLDER`: exit 0 pass, 1 fail, 2 unknown.

The folder holds the files of a run, by any client, under the names that `loadtest/files.py` gives
them. `--report` also writes the report.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from loadtest.checker import EXIT_CODES, PROPERTIES, UNKNOWN
from loadtest.files import RunFiles
from loadtest.report import Story
from loadtest.steps import judge_run, write_report


def main(arguments: list[str] | None = None) -> int:
    """Judge the folder named on the command line and print the findings."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.checker", description=__doc__)
    parser.add_argument("folder", type=Path, help="the files of one run")
    parser.add_argument(
        "--properties",
        nargs="*",
        choices=list(PROPERTIES),
        default=list(PROPERTIES),
        help="those to judge",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--report", type=Path, help="write the report to this file")
    parser.add_argument("--title", default="A run", help="title of the report")
    options = parser.parse_args(arguments)
    files = RunFiles(options.folder)
    verdict = judge_run(files, {}, properties=options.properties)
    if verdict.reason:
        print(f"cannot be judged: {verdict.reason}", file=sys.stderr)
        return EXIT_CODES[UNKNOWN]
    if options.report:
        try:
            write_report(options.report, files, Story(options.title), verdict)
        except OSError as error:
            print(f"cannot be shown: {error}", file=sys.stderr)
            return EXIT_CODES[UNKNOWN]
    if options.json:
        print(json.dumps(verdict.to_json(), indent=2))
    else:
        for finding in verdict.properties:
            print(f"{finding.id:4} {finding.name:22} {finding.verdict:8} {finding.detail}")
        print(verdict.verdict)
    return EXIT_CODES[verdict.verdict]


if __name__ == "__main__":
    sys.exit(main())
