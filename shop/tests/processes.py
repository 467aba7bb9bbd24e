"""Helpers for tests that start real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from shop import environment


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    """Return when `condition()` is true; fail the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)


def run_python(
    code: str, *arguments: str, given: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a process that has only these variables, and is given this text."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=environment.PROJECT,
        env={"PATH": os.environ["PATH"], **variables},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
