"""A rush of synthetic buyers at one sale, by Locust in a process of its own."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Any

from lab.proof.load_profile import Load, LoadFailed, LoadProfile
from lab.room.timeline import Timeline
from loadtest.roles import MAIN

POLL = 0.25
"""Seconds between two looks whether the buyers have finished."""


class Rush:
    """At most one rush at a time.

    Args:
        url: of the shop.
        timeline: is told.
        show: called with what is shown of the rush; with None after it.
    """

    def __init__(
        self, url: str, timeline: Timeline, show: Callable[[dict[str, Any] | None], None]
    ) -> None:
        self._url, self._timeline, self._show = url, timeline, show
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, sale: int, buyers: int, mix: str, arrivals: float) -> bool:
        """Let buyers at a sale; return False while others are still there."""
        profile = LoadProfile(buyers, mix, SystemRandom().randrange(1, 2**31), arrivals=arrivals)
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return False
            self._end.clear()
            self._thread = threading.Thread(target=self._run, args=[sale, profile], name="rush")
            self._thread.start()
            return True

    def stop(self) -> None:
        """Send the buyers away, and return when they have gone."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, sale: int, profile: LoadProfile) -> None:
        self._show({"sale": sale, "buyers": profile.buyers})
        self._timeline.add("rush", sale=sale, buyers=profile.buyers)
        with tempfile.TemporaryDirectory(prefix="rush-") as folder:
            # No history: stock and terms may change by a click meanwhile, of which a checker that
            # reads histories would know nothing. The books are judged instead.
            load = Load(profile, self._url, {MAIN: sale}, Path(folder), records=False)
            try:
                while load.running() and not self._end.wait(POLL):
                    pass
                self._timeline.add("rush_over", sale=sale)
            except LoadFailed as error:
                self._timeline.add("rush_failed", sale=sale, problem=str(error).splitlines()[-1])
            finally:
                load.stop()
                self._show(None)
