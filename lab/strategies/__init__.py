"""Comparison strategies, correct and incorrect, for use beside the shop's own.

To add one, add a module here and a line in ``COMPARISON``.
"""

from inventory.selling.strategies.base import Strategy
from lab.strategies.advisory import Advisory
from lab.strategies.buckets import Buckets
from lab.strategies.guard_orm import GuardOrm
from lab.strategies.naive import Naive
from lab.strategies.preload import Preload
from lab.strategies.redis_lock import RedisPyLock
from lab.strategies.unguarded import Unguarded
from lab.strategies.unit_rows import UnitRows
from lab.strategies.version import Version

COMPARISON: tuple[type[Strategy], ...] = (
    Preload,
    GuardOrm,
    Advisory,
    Version,
    UnitRows,
    Buckets,
    RedisPyLock,
    Unguarded,
    Naive,
)
