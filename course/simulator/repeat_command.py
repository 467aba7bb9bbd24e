"""Command lines that the simulator prints for repeating a run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def command(words: str) -> str:
    """Return the command line that runs this package with `words` in the current Python.

    The path of Python is relative if the current folder contains it (a virtual environment).
    """
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"{shlex.quote(str(python))} -m course.simulator {words}"
