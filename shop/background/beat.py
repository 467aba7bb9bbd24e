"""Celery's scheduler, which sends each sweep at its time.

Several may run, and each sends its sweeps: a sweep that runs twice, also at the same time, does
what one does (`shop/tests/test_beat.py`). So nothing selects one of them, and a second one needs no
time to take over.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.beat import PersistentScheduler, ScheduleEntry
from kombu.exceptions import OperationalError

from shop.background.sending import ENOUGH_SWEEPS, waiting

log = logging.getLogger(__name__)


class Beat(PersistentScheduler):
    """A scheduler that stops sending sweeps while nobody seems to work."""

    _full = ""

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send a due sweep, unless so many tasks wait in its queue that nobody seems to work."""
        queue: str = self.app.conf.task_routes[entry.task]["queue"]
        try:
            enough = waiting(producer or self.producer, queue) >= ENOUGH_SWEEPS
        except OperationalError:
            enough = False  # sending connects again, or logs why it cannot
        if not enough:
            super().apply_entry(entry, producer=producer)
        elif queue != self._full:
            log.warning("enough tasks wait in the queue %s; no further ones are sent", queue)
            self._full = queue
