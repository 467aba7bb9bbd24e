"""Buyers who pay, cancel or return what they bought, in time, at the last moment, or never."""

from __future__ import annotations

import time
from random import Random

from loadtest.full_shop import Answer
from loadtest.purchases import Sale
from loadtest.sale_roles import BRIEF
from loadtest.scenarios.asking import at_once, buy_one, order_when_back
from loadtest.shopper import Shopper

# Seconds to pay where the shop does not say, or gives more than a load test can wait.
MAX_WAIT = 5.0
# Seconds before and after the deadline within which a late buyer pays, and how often.
BEFORE, AFTER, TIMES = 0.8, 0.3, 2
# Seconds around the deadline within which a late buyer cancels.
AROUND = 0.4
# How often, of all times, they pay in another window at the same moment.
TORN = 0.4


def buy_and_pay(shopper: Shopper, random: Random) -> None:
    """Buy one, think, pay; one in four pays again."""
    if (order := buy_one(shopper, random)) is None:
        return
    shopper.sleep(random.random() / 2)
    shopper.pay(order)
    if random.random() < 0.25:
        shopper.pay(order)


def abandon(shopper: Shopper, random: Random) -> None:
    """Buy one and leave without paying; the reservation has to run out on its own."""
    buy_one(shopper, random)


def cancel(shopper: Shopper, random: Random) -> None:
    """Buy one, cancel it; half of them cancel again or try to pay what they have cancelled."""
    if (order := buy_one(shopper, random)) is None:
        return
    shopper.sleep(random.random() / 2)
    shopper.cancel(order)
    if random.random() < 0.5:
        random.choice([shopper.cancel, shopper.pay])(order)


def pay_and_refund(shopper: Shopper, random: Random) -> None:
    """Buy one, pay it, ask for the money back; half of them ask twice at the same moment."""
    if (order := buy_one(shopper, random)) is None:
        return
    shopper.pay(order)
    shopper.sleep(random.random() / 2)
    clicks = 1 if random.random() < 0.5 else 2
    at_once(shopper, [(Shopper.refund, order)] * clicks)


def let_expire(shopper: Shopper, random: Random) -> None:
    """Buy up to the limit, never pay in time, and look at the order before and after its end."""
    sale = shopper.sale_of(BRIEF)
    answer = order_when_back(shopper, sale, random.randint(1, sale.limit), random)
    if answer.order is None:
        return
    seconds = _seconds_to_pay(sale, answer)
    shopper.sleep(seconds * (0.6 + 0.3 * random.random()))
    shopper.read(answer.order)
    shopper.sleep(seconds * 0.4)
    for _ in range(2):
        shopper.read(answer.order)
        shopper.sleep(1 + random.random())
    if random.random() < 0.5:
        shopper.pay(answer.order)


def pay_at_deadline(shopper: Shopper, random: Random) -> None:
    """Pay around the deadline, at times twice at once; see later what became of it."""
    sale = shopper.sale_of(BRIEF)
    for _ in range(TIMES):
        answer = order_when_back(shopper, sale, 1, random)
        if answer.order is None:
            return
        shopper.sleep(max(0.0, _seconds_to_pay(sale, answer) + random.uniform(-BEFORE, AFTER)))
        at_once(shopper, [(Shopper.pay, answer.order)] * random.randint(1, 2))
        shopper.read(answer.order)
        shopper.sleep(1.5 + random.random())
        shopper.read(answer.order)


def cancel_late(shopper: Shopper, random: Random) -> None:
    """Cancel around the deadline, at times while paying, and once more after it."""
    sale = shopper.sale_of(BRIEF)
    answer = order_when_back(shopper, sale, random.randint(1, sale.limit), random)
    if answer.order is None:
        return
    shopper.sleep(max(0.0, _seconds_to_pay(sale, answer) + random.uniform(-AROUND, AROUND)))
    other = Shopper.pay if random.random() < TORN else Shopper.cancel
    at_once(shopper, [(Shopper.cancel, answer.order), (other, answer.order)])
    shopper.sleep(1 + random.random())
    shopper.cancel(answer.order)
    shopper.read(answer.order)


def _seconds_to_pay(sale: Sale, answer: Answer) -> float:
    """Return the seconds from now to the deadline of an order; 0 if it has passed."""
    try:
        deadline = answer.pay_before
    except ValueError:
        return MAX_WAIT
    return max(0.0, min(deadline + sale.clock - time.monotonic(), MAX_WAIT))
