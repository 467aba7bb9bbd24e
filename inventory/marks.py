"""Marked points: places at which the proof has a process killed or stopped, at exactly that line.

Off unless ``settings.INVENTORY_MARKS`` names a folder, which only the proof's own processes have.
A file in it named like a point is an order, ``kill`` or ``stop``; the process that comes by first
takes it, by renaming it to ``<point>.<pid>``, and obeys.
"""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path

from inventory import conf

LOCKED = "locked"
BEFORE_COMMIT = "before-commit"
AFTER_COMMIT = "after-commit"
BEFORE_ANSWER = "before-answer"
FOLLOW_UP = "follow-up"

ORDERS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@cache
def folder() -> str:
    """Where orders are left; empty: nowhere."""
    return conf.MARKS.get()


conf.MARKS.on_change(folder.cache_clear)


def reach(point: str) -> None:
    """Say that this process is at a point, and do to itself what it finds ordered there."""
    if folder():
        _obey(Path(folder()) / point)


def _obey(mark: Path) -> None:
    try:
        order = mark.read_text()
        # Renamed whole or not at all: of several processes that come by, one has it.
        mark.rename(f"{mark}.{os.getpid()}")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), ORDERS[order])
