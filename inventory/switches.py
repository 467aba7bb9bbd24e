"""The three lines of defence, each with a switch, so that a lesson can turn one off.

All are on unless ``settings.INVENTORY_LINES`` says otherwise, which only a demonstration or a
test may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from inventory import conf


@dataclass(frozen=True, slots=True)
class Switches:
    """Which lines are on.

    Attributes:
        admission: refuse on the sold-out hint, without touching the database.
        lock: take the item's lock before the transaction.
        guard: lock the row, compare before the decrement, and let the books be enforced.
    """

    admission: bool = True
    lock: bool = True
    guard: bool = True


@cache
def switches() -> Switches:
    """The switches of this process.

    Raises:
        ValueError: the setting names a line that does not exist.
    """
    lines = set(conf.SWITCHED_ON.get())
    if unknown := lines - set(conf.LINES):
        raise ValueError(f"INVENTORY_LINES: no such line {sorted(unknown)}; there are {conf.LINES}")
    return Switches(**{name: name in lines for name in conf.LINES})


conf.SWITCHED_ON.on_change(switches.cache_clear)
