"""Notify Celery of new outbox messages.

Only a notify: it carries no message and may be lost, for the sweep finds everything anyway. So it
may also be cheap. It runs beside the purchase, at most one at a time and a few a second, and leaves
a broker alone that does not answer.
"""

from __future__ import annotations

import logging
import threading
import time

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

PAUSE = 0.25
"""Seconds between two nudges of a process; what is written meanwhile waits for the next one, or
for the sweep."""

PAUSE_AFTER_FAILURE = 5.0
"""Seconds for which a broker is left alone that did not answer."""

WORTH = 10
"""Seconds after which a notify that no worker has taken is dropped: the sweep was there by then."""


class Notifier:
    """Callable; returns at once."""

    def __init__(self) -> None:
        self._next = 0.0
        self._under_way = threading.Lock()

    def __call__(self) -> None:
        """Notifier, unless that was done just now."""
        if time.monotonic() < self._next or not self._under_way.acquire(blocking=False):
            return
        self._next = time.monotonic() + PAUSE
        threading.Thread(target=self._send, name="notify", daemon=True).start()

    def _send(self) -> None:
        try:
            self._send_once()
        finally:
            self._under_way.release()

    def _send_once(self) -> None:
        # Here, since the Celery app does not come to be without a broker's address, which not
        # every management command has.
        from shop.background.tasks import follow_up

        try:
            follow_up.apply_async(retry=False, expires=WORTH)
        except (OperationalError, RedisError, OSError) as error:
            log.warning("the broker does not answer (%s); the sweep will follow up", error)
            self._next = time.monotonic() + PAUSE_AFTER_FAILURE


notify = Notifier()
