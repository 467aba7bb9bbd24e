"""The other ways of selling, right and wrong ones, to compare with the shop's own.

Adding one is a file here and a line in ``COMPARISON``.
"""

from inventory.selling.strategies.base import Strategy
from lab.strategies.advisory import Advisory
from lab.strategies.buckets import Buckets
from lab.strategies.naive import Naive
from lab.strategies.preload import Preload
from lab.strategies.redis_lock import RedisLock
from lab.strategies.unguarded import Unguarded
from lab.strategies.unit_rows import UnitRows
from lab.strategies.version import Version

COMPARISON: tuple[type[Strategy], ...] = (
    Preload,
    Advisory,
    Version,
    UnitRows,
    Buckets,
    RedisLock,
    Unguarded,
    Naive,
)
