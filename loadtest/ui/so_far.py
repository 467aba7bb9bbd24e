"""Judge a run while it goes on: `python -m loadtest.ui.so_far FOLDER ASKED`; prints JSON.

A separate process, as `judge.py` is, and one that leaves the machine to the run that it judges.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from loadtest.checker import Broken, judge_so_far
from loadtest.steps import RunFiles
from loadtest.steps.judge import UNREADABLE


class Asked(msgspec.Struct, frozen=True):
    """The histories to read, the properties to leave out, and whether faults are injected."""

    histories: list[str]
    not_judged: list[str]
    faults: bool


def main(folder: str, asked: str) -> int:
    """Print what is broken so far; nothing if a file changed while it was read."""
    wanted = msgspec.json.decode(asked, type=Asked)
    try:
        found: list[Broken] = judge_so_far(
            wanted.histories,
            RunFiles(Path(folder)).during(),
            not_judged=wanted.not_judged,
            faults=wanted.faults,
        )
    except UNREADABLE:
        return 1
    print(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(*sys.argv[1:]))
