"""The time that is left to pay an order."""

from __future__ import annotations

from datetime import datetime

from loadtest.client import Answer

# Seconds where the shop does not say, or gives more than anybody waits in a load test.
LONGEST = 5.0


def seconds_to_pay(answer: Answer) -> float:
    """Seconds from an order's opening, which is a moment ago, to its deadline."""
    try:
        opened = datetime.fromisoformat(answer.body["created"])
        deadline = datetime.fromisoformat(answer.body["pay_before"])
    except (KeyError, TypeError, ValueError):
        return LONGEST
    return min((deadline - opened).total_seconds(), LONGEST)
