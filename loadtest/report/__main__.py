"""`python -m loadtest.report HISTORY… --snapshot FINAL --output report.html`: judge and report.

Exit codes as in `loadtest.checker`: 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import sys

from loadtest.checker.__main__ import EXIT_CODES, NOT_JUDGED, UNREADABLE, arguments_of, judged
from loadtest.report import Story, gather, write


def main(arguments: list[str] | None = None) -> int:
    """Judge the files named on the command line and write the report."""
    parser = arguments_of("loadtest.report", __doc__)
    parser.add_argument("--title", default="A run", help="title of the report")
    parser.add_argument("--output", default="report.html", help="the file to write")
    options = parser.parse_args(arguments)
    try:
        verdict = judged(options)
        evidence = gather(
            options.histories, during=options.during, final=options.snapshot, faults=options.faults
        )
        write(options.output, Story(options.title), verdict, evidence)
    except UNREADABLE as error:
        print(f"cannot make the report: {error}", file=sys.stderr)
        return NOT_JUDGED
    print(f"{verdict.verdict}: {options.output}")
    return EXIT_CODES.get(verdict.verdict, NOT_JUDGED)


if __name__ == "__main__":
    sys.exit(main())
