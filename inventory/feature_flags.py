"""Feature flags of the safeguards, so that a lesson or a negative control can turn one off.

All are on unless ``settings.INVENTORY_LINES`` says otherwise, which only a demonstration or a
test may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from inventory import conf


@dataclass(frozen=True, slots=True)
class FeatureFlags:
    """Which lines are on.

    Attributes:
        admission: refuse on the sold-out hint, without touching the database.
        lock: take the item's lock before the transaction.
        connections: drop dead connections of the database's pool before they are used.
    """

    admission: bool = True
    lock: bool = True
    connections: bool = True


@cache
def feature_flags() -> FeatureFlags:
    """The switches of this process.

    Raises:
        ValueError: the setting names a line that does not exist.
    """
    lines = set(conf.SWITCHED_ON.get())
    if unknown := lines - set(conf.LINES):
        raise ValueError(f"INVENTORY_LINES: no such line {sorted(unknown)}; there are {conf.LINES}")
    return FeatureFlags(**{name: name in lines for name in conf.LINES})


conf.SWITCHED_ON.on_change(feature_flags.cache_clear)
