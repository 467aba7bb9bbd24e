"""The registry of strategies: ways of selling, by name.

A project adds its own with :func:`register`, in the ``ready`` method of its app config.
"""

from __future__ import annotations

from functools import cache

from inventory import conf
from inventory.selling.strategies.base import Strategy
from inventory.selling.strategies.combining import Combining
from inventory.selling.strategies.guarded import Guard
from inventory.selling.strategies.row_lock import RowLock

CLASSES: dict[str, type[Strategy]] = {}
"""Strategy classes by name, the default first."""

DEFAULT = Combining.name


def register(kind: type[Strategy]) -> None:
    """Make a strategy available under its name.

    Raises:
        ValueError: another class has that name.
    """
    if CLASSES.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"there is another strategy named {kind.name!r}: {CLASSES[kind.name]}")


for _kind in (Combining, Guard, RowLock):
    register(_kind)


@cache
def strategy(name: str) -> Strategy:
    """Return the strategy of that name: one object per process, because some hold queues.

    Raises:
        KeyError: no strategy has that name.
    """
    if name not in CLASSES:
        raise KeyError(f"no strategy is called {name!r}; there are {', '.join(CLASSES)}")
    return CLASSES[name].make()


# Strategies keep the limits and the connection that they were created with.
for _each in (conf.REDIS_URL, conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT):
    _each.on_change(strategy.cache_clear)


__all__ = ["CLASSES", "DEFAULT", "Strategy", "register", "strategy"]
