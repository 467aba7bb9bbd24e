"""Commands that are printed to be run again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def command(words: str) -> str:
    """Return the command line that gives `words` to this package, run by the present Python.

    Its path is relative where the current folder contains it, as with a virtual environment.
    """
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"{shlex.quote(str(python))} -m lab.locks.simulator {words}"
