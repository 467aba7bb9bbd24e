"""The time that is left to pay an order."""

from __future__ import annotations

import time

from loadtest.sale import Sale
from loadtest.shops.flash_sale.answers import Answer

# Seconds where the shop does not say, or gives more than a load test can wait.
LONGEST = 5.0


def seconds_to_pay(sale: Sale, answer: Answer) -> float:
    """Seconds from now to the deadline of an order in a sale; 0 if it has passed."""
    try:
        deadline = answer.pay_before
    except ValueError:
        return LONGEST
    return max(0.0, min(deadline + sale.clock - time.monotonic(), LONGEST))
