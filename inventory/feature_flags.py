"""Feature flags of the safeguards, so that a lesson or a negative control can turn one off.

All are on unless ``settings.INVENTORY_LINES`` says otherwise, which only a demonstration or a
test may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.core.signals import setting_changed

NAMES = ("admission", "lock", "guard", "connections")


@dataclass(frozen=True, slots=True)
class FeatureFlags:
    """Which lines are on.

    Attributes:
        admission: refuse on the sold-out hint, without touching the database.
        lock: take the item's lock before the transaction.
        guard: lock the row, compare before the decrement, and let the books be enforced.
        connections: drop dead connections of the database's pool before they are used.
    """

    admission: bool = True
    lock: bool = True
    guard: bool = True
    connections: bool = True


@cache
def feature_flags() -> FeatureFlags:
    """The switches of this process.

    Raises:
        ValueError: the setting names a line that does not exist.
    """
    lines = set(getattr(settings, "INVENTORY_LINES", NAMES))
    if unknown := lines - set(NAMES):
        raise ValueError(f"INVENTORY_LINES: no such line {sorted(unknown)}; there are {NAMES}")
    return FeatureFlags(**{name: name in lines for name in NAMES})


def _forget(*, setting: str, **_: object) -> None:
    if setting == "INVENTORY_LINES":
        feature_flags.cache_clear()


setting_changed.connect(_forget)
