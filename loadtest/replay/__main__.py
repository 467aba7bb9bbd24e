"""`python -m loadtest.replay HISTORY… --output replay.html`: any run's history in slow motion.

With `--snapshot` the run is judged first, and what broke its properties is marked.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from loadtest.checker import PROPERTIES, FaultLogError, HistoryError, SnapshotError, judge
from loadtest.replay import MOST, ServedError, compose, find_marks, read_served, write_page


def main(arguments: list[str] | None = None) -> int:
    """Write the page; 2 if a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.replay", description=__doc__)
    parser.add_argument("histories", nargs="+", help="history files of one run")
    parser.add_argument("--snapshot", help="the final snapshot")
    parser.add_argument("--during", nargs="*", default=[], help="snapshots taken during the run")
    parser.add_argument("--served", nargs="*", default=[], help="what the shop recorded")
    parser.add_argument(
        "--properties", nargs="*", default=list(PROPERTIES), help="properties to judge"
    )
    parser.add_argument("--title", default="A run", help="title of the page")
    parser.add_argument("--most", type=int, default=MOST, help=f"calls at most (default: {MOST})")
    parser.add_argument("--output", default="replay.html", help="the file to write")
    options = parser.parse_args(arguments)
    snapshots = {"during": options.during}
    try:
        marks = []
        if options.snapshot:
            verdict = judge(
                options.histories, options.snapshot, properties=options.properties, **snapshots
            )
            marks = find_marks(verdict, options.histories, final=options.snapshot, **snapshots)
        document = compose(
            options.histories,
            title=options.title,
            marks=marks,
            served=read_served(map(Path, options.served)),
            most=options.most,
        )
        write_page(options.output, document)
    except (HistoryError, SnapshotError, FaultLogError, ServedError, OSError, ValueError) as error:
        print(f"cannot make the replay: {error}", file=sys.stderr)
        return 2
    print(f"{len(document['calls']['sent'])} of {document['all']} calls: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
