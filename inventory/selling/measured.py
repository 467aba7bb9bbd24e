"""Measure purchases by strategy and outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from inventory.metrics import metrics
from inventory.outcomes import (
    Busy,
    Declined,
    Granted,
    KeyReused,
    LimitReached,
    OutcomeUnknown,
    SoldOut,
)

T = TypeVar("T")

OUTCOMES: dict[type, str] = {
    Granted: "granted",
    SoldOut: "sold_out",
    LimitReached: "limit_reached",
    KeyReused: "key_reused",
    Busy: "busy",
    Declined: "declined",
    OutcomeUnknown: "unknown",
}
"""Names of outcomes in ``purchase_seconds``, beside ``replayed``, ``failed`` and ``other``."""


def measured(strategy: str, sell: Callable[[], T], outcome: Callable[[T], object]) -> T:
    """Sell, and count the purchase with its duration.

    Args:
        strategy: its name.
        sell: makes the purchase.
        outcome: the outcome in what ``sell`` returns.

    Returns:
        What ``sell`` returns.
    """
    start = time.perf_counter()
    name = "failed"
    try:
        answer = sell()
        found = outcome(answer)
        # A purchase that was made must not fail for want of a name.
        replayed = isinstance(found, Granted) and found.replayed
        name = "replayed" if replayed else OUTCOMES.get(type(found), "other")
        return answer
    except Exception as error:
        name = OUTCOMES.get(type(error), name)
        raise
    finally:
        metrics.observe("purchase_seconds", time.perf_counter() - start, strategy, name)
