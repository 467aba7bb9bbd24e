"""Notify Celery of new outbox messages.

A notification carries no data and may be lost, because the sweep finds every message. It must be
cheap, because it runs during a purchase: one at a time, a few per second, and none while the broker
does not answer.
"""

from __future__ import annotations

import threading
import time

PAUSE = 0.25
"""Seconds between notifications of a process; messages written meanwhile wait for the next one or
for the sweep."""

PAUSE_AFTER_FAILURE = 5.0
"""Seconds without notifications after the broker did not answer."""


class Notifier:
    """A callable that returns at once."""

    def __init__(self) -> None:
        self._next = 0.0
        self._under_way = threading.Lock()

    def __call__(self) -> None:
        """Notify Celery, unless a notification was just sent."""
        if time.monotonic() < self._next or not self._under_way.acquire(blocking=False):
            return
        self._next = time.monotonic() + PAUSE
        threading.Thread(target=self._send, name="notify", daemon=True).start()

    def _send(self) -> None:
        try:
            # Imported here: the Celery app needs a broker's address, which not every management
            # command has.
            from shop.background.sending import ask_for
            from shop.background.tasks import follow_up

            if not ask_for(follow_up):
                self._next = time.monotonic() + PAUSE_AFTER_FAILURE
        finally:
            self._under_way.release()


notify = Notifier()
