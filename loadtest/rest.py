"""Waiting until a shop has come to rest: nothing is pending, and its books do not change."""

from __future__ import annotations

import time
from collections.abc import Callable

Figures = tuple[int, ...]
"""Figures that must be stable before a run is judged."""


def at_rest(look: Callable[[float], Figures | None], patience: float, pause: float) -> bool:
    """Wait until nothing is pending and nothing changes any more: whether it is so.

    Args:
        look: reads the books, after so many seconds; None if the shop is silent, or something is
            pending.
        patience: seconds for the shop to come to rest.
        pause: seconds between two looks.
    """
    start = time.monotonic()
    before: Figures | None = None
    while (since := time.monotonic() - start) < patience:
        now = look(since)
        if now is not None and now == before:
            return True
        before = now
        time.sleep(pause)
    return False
