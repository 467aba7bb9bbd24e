"""Feature flags for the safeguards, so that a lesson or a negative control can turn one off.

All are on unless `settings.INVENTORY_FEATURE_FLAGS` says otherwise, which only demonstrations and
tests do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from inventory import conf


@dataclass(frozen=True, slots=True)
class FeatureFlags:
    """The safeguards that are on.

    Attributes:
        admission: refuse on the sold-out hint, without a query.
        lock: acquire the item's lock before the transaction.
        connections: discard dead pooled connections before use.
    """

    admission: bool = True
    lock: bool = True
    connections: bool = True


@cache
def feature_flags() -> FeatureFlags:
    """Return the flags of this process.

    Raises:
        ValueError: the setting names an unknown flag.
    """
    on, known = set(conf.FLAGS_ON.get()), conf.FEATURE_FLAGS
    if unknown := on - set(known):
        raise ValueError(f"INVENTORY_FEATURE_FLAGS has no flag {sorted(unknown)}, only {known}")
    return FeatureFlags(**{name: name in on for name in known})


conf.FLAGS_ON.on_change(feature_flags.cache_clear)
