"""The wait for the follow-up: mails, payments, refunds, messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Books(NamedTuple):
    """What must come to rest: open follow-ups, and figures that no longer change."""

    owed: int
    figures: tuple[int, ...]


def drain(look: Callable[[float], Books | None], seconds: float, pause: float) -> bool:
    """Wait until nothing is owed and nothing changed between two looks.

    Args:
        look: given the seconds so far; None if the shop does not answer now.
        seconds: to wait at most. What is open then is judged as it is.
        pause: seconds between two looks.

    Returns:
        Whether the shop came to rest.
    """
    start = time.monotonic()
    before: Books | None = None
    while (since := time.monotonic() - start) < seconds:
        now = look(since)
        if now is not None:
            if now == before and not now.owed:
                return True
            before = now
        time.sleep(pause)
    return False
