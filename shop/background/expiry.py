"""Expire unpaid orders soon after their deadline, which a delay queue tracks.

The database is the truth twice over. It judges whether an order is due, by its own clock, so the
queue's clock may be wrong; and its sweep (``orders.expire``) finds every order that the queue
never heard of, so the queue may be lost. All that the queue buys is time: its consumer looks each
second at the few orders that are due, where the sweep looks less often and at all of them.

An order enters when its ``orders.opened`` message is followed up, not when it is bought.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache, partial

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from inventory.redis import circuit, client
from locking.queue import DelayQueue, Due
from shop import orders
from shop.orders.models import Order

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Orders expired in one transaction."""


@cache
def queue() -> DelayQueue:
    """Return the delay queue of order ids."""
    return DelayQueue(client(), "orders")


def enter(opened: Iterable[int]) -> None:
    """Add new orders to the delay queue.

    Call it before the commit that marks them as entered: a crash in between then enters them
    again, which changes nothing. What is lost because Redis is away is found by the sweep.
    """
    _enter(_waits(opened))


def leave(settled: Iterable[int]) -> None:
    """Remove paid or cancelled orders from the queue after the transaction commits.

    One that stays is looked at when it is due, and left alone.
    """
    ids = [str(order) for order in settled]
    transaction.on_commit(partial(circuit().ask, lambda: queue().discard(ids), otherwise=0))


def expire_due(seconds: float = math.inf) -> int:
    """Expire the orders that are due, beginning no more of them after that long; how many were.

    Other workers may do the same meanwhile.
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
    expired, early = _expire_or_split([int(one.id) for one in taken])
    # Only now, after the commit: what a crash leaves unacknowledged is popped once more. And what
    # was early is entered again before it is acknowledged, so that no crash loses it.
    _enter(early)
    circuit().ask(lambda: queue().acknowledge(taken), otherwise=0)
    return expired


Waits = list[tuple[str, timedelta]]
"""Orders, and the time that is left to pay each."""


def _expire_or_split(ids: Sequence[int]) -> tuple[int, Waits]:
    """Expire orders; one that cannot be expired does not keep the others' units."""
    try:
        with transaction.atomic():
            # One transaction and so one moment: each is either due in it or still waits in it.
            return orders.expire_those(ids), _waits(ids)
    except (OperationalError, InterfaceError):
        raise  # the database is away; their claims end and they come back
    except Exception:
        if len(ids) == 1:
            log.exception("order %s could not be expired; the sweep will try again", ids[0])
            return 0, []
        middle = len(ids) // 2
        expired, early = _expire_or_split(ids[:middle])
        more_expired, more_early = _expire_or_split(ids[middle:])
        return expired + more_expired, early + more_early


def _waits(of: Iterable[int]) -> Waits:
    """Those whose deadline is still to come, by the database's clock."""
    left = ExpressionWrapper(F("pay_before") - Now(), output_field=DurationField())
    unpaid = Order.objects.filter(
        pk__in=list(of), status=Order.Status.AWAITING_PAYMENT, pay_before__gt=Now()
    )
    return [(str(order), wait) for order, wait in unpaid.values_list("pk", left)]


def _enter(waits: Waits) -> None:
    together = defaultdict(list)  # what was sold in one batch is due at once
    for order, wait in waits:
        together[wait].append(order)
    for wait, ids in together.items():
        entering = partial(queue().enqueue, ids, wait.total_seconds(), reschedule=True)
        circuit().ask(entering, otherwise=0)
