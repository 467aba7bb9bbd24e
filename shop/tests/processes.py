"""Helpers for tests that start real processes."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    """Return when `condition()` is true; fail the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)
