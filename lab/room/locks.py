"""What Redis says about the watched items' locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from inventory.item_lock import ITEM_LOCK
from locking import LockUnavailable
from locking.backends.redis_status import status_of

ERRORS: tuple[type[Exception], ...] = (RedisError, LockUnavailable)


class Locks:
    """Reads the locks of items.

    Args:
        items: returns the items' ids.
    """

    def __init__(self, items: Callable[[], Sequence[int]]) -> None:
        self._items = items

    def read(self) -> dict[str, Any]:
        """Read every lock in one command each.

        Raises:
            RedisError, LockUnavailable: Redis does not answer.
        """
        # Without a watched item, ask for the lock of no item: the answer shows that Redis is up.
        return {str(item): self._lock(item) for item in self._items() or [0]}

    def _lock(self, item: int) -> dict[str, Any]:
        status = status_of(ITEM_LOCK.make(item))
        return {
            "holder": _pid(status.owner) if status.owner else None,
            "token": status.token,
            "remaining": round(status.remaining, 2),
            "lease": ITEM_LOCK.lease,
            "waiters": [_pid(waiter) for waiter in status.waiters],
        }


def _pid(owner: str) -> str:
    """Return the process id of an owner's name, "host/process id"."""
    return owner.rpartition("/")[2]
