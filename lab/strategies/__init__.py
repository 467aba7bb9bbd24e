"""Strategies: ways of selling, by name. What sells outside the lab is compared with others,
correct and incorrect.

To add one, add a class here and a line in `ALL`.
"""

from __future__ import annotations

from functools import cache

from inventory import conf
from lab.strategies.combining import Combining, Guard
from lab.strategies.preload import Preload
from lab.strategies.single import Strategy
from lab.strategies.textbook import (
    Naive,
    RedisPyLock,
    RowLock,
    Version,
)

ALL: tuple[type[Strategy], ...] = (
    Combining,
    Guard,
    RowLock,
    Preload,
    Version,
    RedisPyLock,
    Naive,
)

CLASSES: dict[str, type[Strategy]] = {kind.name: kind for kind in ALL}
"""Strategies by name, the default first."""

DEFAULT = Combining.name


@cache
def strategy(name: str) -> Strategy:
    """Return the strategy of that name: one object per process, because some hold queues.

    Raises:
        KeyError: no strategy has that name.
    """
    if name not in CLASSES:
        raise KeyError(f"no strategy is called {name!r}; there are {', '.join(CLASSES)}")
    return CLASSES[name]()


# Strategies keep the limits and the connection that they were created with.
for _name in ("REDIS_URL", conf.MAX_BATCH.name, conf.MAX_WAITING.name, conf.MAX_WAIT.name):
    conf.on_change(_name, strategy.cache_clear)


__all__ = ["CLASSES", "DEFAULT", "Strategy", "strategy"]
