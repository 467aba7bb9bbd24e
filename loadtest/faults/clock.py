"""The fault that steps the web processes' clock by hours."""

from __future__ import annotations

import json
import time
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from loadtest.fault_needs import CLOCK
from loadtest.faults.fault import Fault, FaultFailed, wait_until
from loadtest.shops.flash_sale import requests

STEP = 6 * 3600
"""Seconds: longer than a proof's sale, shorter than a buyer's token lasts."""


class ClockStepped(Fault):
    """Steps the clock beyond the sale's end, or to before its start.

    The response's `Date` comes from the worker's clock and shows the step. The sale must stay open,
    because the database's clock decides on its window.
    """

    name = "clock-stepped"
    what = "the web processes' clock jumps by hours"
    expected = "sale windows are judged by one clock, the database's"
    needs = frozenset({CLOCK})

    def inject(self) -> None:  # noqa: D102
        step = self.random.choice([-STEP, STEP])
        Path(self.target.clock).write_text(f"{step:+d}\n")
        wait_until("a worker's clock has jumped", lambda: abs(self._ahead()) > STEP / 2, 10)
        self.did["ahead"] = round(self._ahead())
        self.did["sale"] = self._sale().get("status", "")
        if self.did["sale"] in ("not_started", "ended"):
            raise FaultFailed(f"with the clock stepped by {step} s the sale is {self.did['sale']}")

    def heal(self) -> None:  # noqa: D102
        Path(self.target.clock).write_text("+0\n")
        wait_until("the worker's clock is back", lambda: abs(self._ahead()) < STEP / 2, 10)

    def _ahead(self) -> float:
        """Return the seconds by which a worker's clock is ahead; 0 if none answers now."""
        try:
            with urllib.request.urlopen(
                self.target.web + requests.HEALTH.path, timeout=5
            ) as answer:
                date = parsedate_to_datetime(answer.headers["Date"])
        except OSError:
            return 0.0
        return (date - datetime.fromtimestamp(time.time(), UTC)).total_seconds()

    def _sale(self) -> dict[str, Any]:
        try:
            address = self.target.web + requests.look(str(self.target.sale)).path
            with urllib.request.urlopen(address, timeout=5) as answer:
                document: dict[str, Any] = json.load(answer)
        except OSError:
            return {}
        return document
