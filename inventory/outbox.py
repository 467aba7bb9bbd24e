"""A transactional outbox: work that follows a commit at least once.

A message is written in the transaction that causes it, and is done when its handler's transaction
commits. After a crash in between, the next delivery finds the message again. Handlers must be
idempotent, or write their effect in the transaction in which they are called.

Delivery selects messages that are not done, never "id greater than the last": ids commit out of
order, and late ones would be skipped.
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
from inventory.tracing import handling, with_parent

log = logging.getLogger(__name__)

Handler = Callable[[Any], None]
"""Receives a message's payload, inside the transaction that will mark it done."""

listeners: list[Callable[[], object]] = []
"""Called without arguments after a commit that wrote messages. A listener must return at once and
not raise: the committing request waits for it."""

FIRST_PAUSE = timedelta(seconds=2)
LONGEST_PAUSE = timedelta(minutes=10)
JITTER = 0.25
MOST_ATTEMPTS = 20
"""A failed message is retried after 2 s, 4 s, 8 s …, at most 10 minutes. Each pause is up to 25%
longer, so that messages that failed together do not return together. After 20 attempts, about two
hours, it is dead until an operator retries it."""


def emit(topic: str, payload: Any) -> None:
    """Write a message in the current transaction, which must be the one that causes it."""
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("a message belongs to its cause's transaction")
    OutboxMessage.objects.create(topic=topic, payload=with_parent(payload))
    announce()


def announce() -> None:
    """Call :data:`listeners` after the commit, for callers that insert messages by SQL."""
    for listener in listeners:
        transaction.on_commit(listener)


def deliver(handlers: Mapping[str, Handler], *, most: int = 1000, seconds: float = math.inf) -> int:
    """Handle the messages that are due; other workers may do so at the same time.

    Args:
        handlers: by topic. A message whose topic has no handler counts as failed.
        most: maximum number of messages.
        seconds: start no further message after this long.

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
    """Whether a message is due."""
    return _todo().exists()


def pending() -> int:
    """Return the number of messages that are not done, dead ones included."""
    return OutboxMessage.objects.filter(done__isnull=True).count()


def _deliver_one(handlers: Mapping[str, Handler]) -> int | None:
    """Handle one message: 1 if it is done, 0 if it failed, None if there is none."""
    message = None
    try:
        with transaction.atomic():
            # SKIP LOCKED: do not wait for messages that other workers handle.
            message = _todo().select_for_update(skip_locked=True).order_by("not_before").first()
            if message is None:
                return None
            with handling(message.topic, message.payload):
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
    """Return the pause after that many failures, at least one."""
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
