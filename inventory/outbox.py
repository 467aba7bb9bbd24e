"""What follows a commit, certainly.

A message is written in the transaction that it follows from, and is done when the consumer's own
transaction says so. Between the two anything may crash: the message is simply found again. So it
may be handled more than once, and never not at all; handlers are idempotent, or write their
effect in the transaction that they are called in.

Messages are found by what is not done, never by "id greater than the last one": ids commit out
of order, and the late ones would be skipped.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from inventory.models import OutboxMessage

log = logging.getLogger(__name__)

Handler = Callable[[Any], None]
"""Gets a message's payload, inside the transaction that will mark it done."""

listeners: list[Callable[[], object]] = []
"""Called, without arguments, after a commit that wrote messages. They must return at once and not
raise: whoever waits for that commit waits for them."""

FIRST_PAUSE = timedelta(seconds=2)
LONGEST_PAUSE = timedelta(minutes=10)
JITTER = 0.25
MOST_ATTEMPTS = 20
"""What fails is tried again after 2 s, 4 s, 8 s …, at most 10 minutes, each up to a quarter longer,
so that what failed together does not come back together. After two hours and these attempts it is
dead: kept, and tried again when somebody says so."""


def emit(topic: str, payload: Any) -> None:
    """Write a message. Must run in the transaction that it follows from."""
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("a message belongs to its cause's transaction")
    OutboxMessage.objects.create(topic=topic, payload=payload)
    announce()


def announce() -> None:
    """Call :data:`listeners` after the commit, for whoever writes messages in SQL of its own."""
    for listener in listeners:
        transaction.on_commit(listener)


def deliver(handlers: Mapping[str, Handler], *, most: int = 1000, seconds: float = math.inf) -> int:
    """Handle the messages that are to be done; other workers may do the same meanwhile.

    Args:
        handlers: by topic. A message whose topic has none counts as failed and stays.
        most: how many before returning.
        seconds: begin no further message after this long.

    Returns:
        How many were done.
    """
    done = 0
    end = time.monotonic() + seconds
    for _ in range(most):
        outcome = _deliver_one(handlers)
        if outcome is None:
            break
        done += outcome
        if time.monotonic() >= end:
            break
    return done


def due() -> bool:
    """Whether there is a message to be handled now, by this worker or another."""
    return _todo().exists()


def pending() -> int:
    """Messages that are not done, dead ones among them."""
    return OutboxMessage.objects.filter(done__isnull=True).count()


def _deliver_one(handlers: Mapping[str, Handler]) -> int | None:
    """One message: 1 if it is done, 0 if it failed, None if there is none."""
    message = None
    try:
        with transaction.atomic():
            # SKIP LOCKED: what another worker is handling is not waited for.
            message = _todo().select_for_update(skip_locked=True).order_by("not_before").first()
            if message is None:
                return None
            handlers[message.topic](message.payload)
            OutboxMessage.objects.filter(pk=message.pk).update(
                done=Now(), attempts=F("attempts") + 1, error=""
            )
    except Exception as error:
        if message is None:
            raise
        log.exception("message %s (%s) failed", message.pk, message.topic)
        _put_off(message, error)
        return 0
    return 1


def pause_after(failures: int) -> timedelta:
    """How long to leave alone what has failed that many times, at least once."""
    pause: timedelta = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
    return pause + timedelta(seconds=pause.total_seconds() * JITTER * random.random())


def _put_off(message: OutboxMessage, error: Exception) -> None:
    attempts = message.attempts + 1
    OutboxMessage.objects.filter(pk=message.pk, done__isnull=True).update(
        attempts=attempts,
        not_before=Now() + pause_after(attempts),
        dead=Now() if attempts >= MOST_ATTEMPTS else None,
        error=f"{type(error).__name__}: {error}"[:2000],
    )


def _todo() -> QuerySet[OutboxMessage]:
    return OutboxMessage.objects.filter(done__isnull=True, dead__isnull=True, not_before__lte=Now())
