"""Shares of the pool of connections, so that one kind of request cannot use up all of them.

A request that belongs to a share borrows from a pool of the share's own, which is a part of the
size of Django's pool. So the others always find theirs free. A request that belongs to none, such
as a task or a command, borrows from Django's pool, which is only opened then.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

PSYCOPGS_MIN_SIZE = 4
"""Connections that a pool keeps where the settings do not say how many."""

PSYCOPGS_TIMEOUT = 30.0
"""Seconds that a request waits for a connection where the settings do not say."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the pool.

    Attributes:
        name: of the share; unique.
        part: of the pool's connections, between 0 and 1.
        patience: how many times the pool's time-out a request waits for a connection.
    """

    name: str
    part: float
    patience: float = 1.0

    def options(self, pool: Any) -> dict[str, Any]:
        """Return the share's options, from those of the whole pool in Django's settings.

        At least one connection, so a pool should have at least one for each of the shares.
        """
        options = dict(pool) if isinstance(pool, dict) else {}
        least = options.get("min_size", PSYCOPGS_MIN_SIZE)
        most = max(1, math.floor((options.get("max_size") or least) * self.part))
        return {
            **options,
            "min_size": min(math.ceil(least * self.part), most),
            "max_size": most,
            "timeout": options.get("timeout", PSYCOPGS_TIMEOUT) * self.patience,
        }


borrowing_from: ContextVar[Share | None] = ContextVar("share", default=None)
"""The share from which this thread borrows its connections; None: from the whole pool.

It is not set while the thread has a connection: it would wait for another one with the first in its
hands."""
