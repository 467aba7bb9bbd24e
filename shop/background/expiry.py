"""Expire unpaid orders soon after their deadline, which a delay queue tracks.

The queue only saves time: its consumer looks at the due orders every second, whereas the sweep
(`orders.expire`) scans all orders less often. The database decides by its own clock whether an
order is due, so the queue's clock may be wrong; the sweep finds all orders, so the queue may be
lost.

An order enters the queue when its `orders.opened` message is followed up.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache, partial

from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from inventory.redis import circuit
from locking.queue import DelayQueue, Due
from shop import orders
from shop.orders.models import Order
from shop.redis import client

AT_ONCE = 200
"""Orders expired per transaction."""


@cache
def queue() -> DelayQueue:
    """Return the delay queue of order ids."""
    return DelayQueue(client(), "orders")


def enter(opened: Iterable[int]) -> None:
    """Add new orders to the delay queue.

    Call it before the commit that marks their messages done: after a crash in between, they
    enter again, which changes nothing. The sweep finds orders lost while Redis does not answer.
    """
    _enter(_waits(opened))


def leave(settled: Iterable[int]) -> None:
    """Remove paid or cancelled orders from the queue after the transaction commits.

    An order that stays is examined when it is due, and left alone.
    """
    ids = [str(order) for order in settled]
    transaction.on_commit(partial(circuit().ask, lambda: queue().discard(ids), otherwise=0))


def expire_due(seconds: float = math.inf) -> int:
    """Expire the orders that are due, for at most that long; return their number.

    Other workers may do the same concurrently.
    """
    total = 0
    end = time.monotonic() + seconds
    while taken := _pop():
        total += _expire(taken)
        if time.monotonic() >= end:
            break
    return total


def _pop() -> list[Due]:
    return circuit().ask(lambda: queue().pop(AT_ONCE), otherwise=[])


def _expire(taken: Sequence[Due]) -> int:
    done = orders.split_on_error("order", _expire_now, [int(one.id) for one in taken])
    # Acknowledge after the commit: after a crash, unacknowledged orders are popped again. Early
    # orders enter again before the acknowledgement, so that no crash loses them.
    _enter(wait for _, early in done for wait in early)
    circuit().ask(lambda: queue().acknowledge(taken), otherwise=0)
    return sum(expired for expired, _ in done)


Waits = list[tuple[str, timedelta]]
"""Orders, each with the time left to pay."""


def _expire_now(ids: Sequence[int]) -> tuple[int, Waits]:
    """Expire the due orders; return their number, and the orders that are not due yet."""
    with transaction.atomic():
        # One transaction and so one time: each order is either due or still waits.
        return orders.expire_those(ids), _waits(ids)


def _waits(of: Iterable[int]) -> Waits:
    """Return those whose deadline has not passed, by the database's clock."""
    left = ExpressionWrapper(F("pay_before") - Now(), output_field=DurationField())
    unpaid = Order.objects.filter(
        pk__in=list(of), status=Order.Status.AWAITING_PAYMENT, pay_before__gt=Now()
    )
    return [(str(order), wait) for order, wait in unpaid.values_list("pk", left)]


def _enter(waits: Iterable[tuple[str, timedelta]]) -> None:
    together = defaultdict(list)  # orders of one batch share a deadline
    for order, wait in waits:
        together[wait].append(order)
    for wait, ids in together.items():
        entering = partial(queue().enqueue, ids, wait.total_seconds(), reschedule=True)
        circuit().ask(entering, otherwise=0)
