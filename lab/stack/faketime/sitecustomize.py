"""Loaded by Python when it starts under libfaketime (see `lab/stack/proxies.py`).

libfaketime 0.9.10 breaks `clock_nanosleep` on a monotonic clock that it does not fake: Python's
`time.sleep` then fails with "Invalid argument". Waiting in `select` does the same.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # type: ignore[assignment]  # it is one
