"""Every way of selling, by name. Adding one is a file here and a line in ``CLASSES``."""

from __future__ import annotations

from functools import cache

from inventory import conf
from inventory.redis import counter, hint, turnstile
from inventory.strategies.advisory import Advisory
from inventory.strategies.base import Strategy
from inventory.strategies.buckets import Buckets
from inventory.strategies.combining import Combining
from inventory.strategies.guarded import Guard
from inventory.strategies.naive import Naive
from inventory.strategies.preload import Preload
from inventory.strategies.redis_lock import RedisLock
from inventory.strategies.row_lock import RowLock
from inventory.strategies.unguarded import Unguarded
from inventory.strategies.unit_rows import UnitRows
from inventory.strategies.version import Version

CLASSES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (
        Combining,
        Preload,
        Guard,
        RowLock,
        Advisory,
        Version,
        UnitRows,
        Buckets,
        RedisLock,
        Unguarded,
        Naive,
    )
}
"""Strategy classes by name, the default first."""

DEFAULT = Combining.name


@cache
def strategy(name: str) -> Strategy:
    """The strategy of that name; one object a process, for some of them hold queues.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in CLASSES:
        raise KeyError(f"no strategy is called {name!r}; there are {', '.join(CLASSES)}")
    kind = CLASSES[name]
    if kind is Preload:
        return Preload(turnstile(), hint(), counter())
    if kind is Combining:
        return Combining(turnstile(), hint())
    return kind()


# Strategies keep the limits and the connection that they began with.
for _each in (conf.REDIS_URL, conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT):
    _each.on_change(strategy.cache_clear)


__all__ = ["CLASSES", "DEFAULT", "Strategy", "strategy"]
