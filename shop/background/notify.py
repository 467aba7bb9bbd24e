"""Notify Celery of new outbox messages.

A notification carries no data and may be lost, because the sweep finds every message. It must be
cheap, because it is asked for during a purchase: that only rings a bell, for which a thread waits.
The thread sends one at a time, a few per second, and none while the broker does not answer.
"""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger(__name__)

PAUSE = 0.25
"""Seconds between notifications of a process; messages written meanwhile wait for the next one or
for the sweep."""

PAUSE_AFTER_FAILURE = 5.0
"""Seconds without notifications after the broker did not answer."""


class Notifier:
    """Notifies Celery whenever the bell was rung, in a thread of its own once it has begun.

    Attributes:
        bell: set after every commit that wrote messages (`hooks.written`).
    """

    def __init__(self) -> None:
        self.bell = threading.Event()

    def begin(self) -> None:
        """Start the thread; without it, as in a command, messages wait for the sweep."""
        threading.Thread(target=self._notify_forever, name="notify", daemon=True).start()

    def _notify_forever(self) -> None:
        while True:
            self.bell.wait()
            # In this order: a message that is written now rings again.
            self.bell.clear()
            time.sleep(PAUSE if self._notify() else PAUSE_AFTER_FAILURE)

    def _notify(self) -> bool:
        # Imported here: the Celery app needs a broker's address, which not every management command
        # has.
        from shop.background.sending import ask_for
        from shop.background.tasks import follow_up

        try:
            return ask_for(follow_up)
        except Exception:
            log.exception("Celery was not notified")  # the next one may be
            return False


notifier = Notifier()
"""This process's."""
