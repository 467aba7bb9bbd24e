"""A transactional outbox: work that follows a commit at least once.

A message is written in the transaction that causes it, and is done when its handler's transaction
commits. After a crash in between, the next delivery finds the message again. Handlers must be
idempotent, or write their effect in the transaction in which they are called. Where neither is
possible, `deliver` can call a handler at most once.

Messages whose handlers wait for others, such as a mail server, have a queue of their own: each
delivery handles one queue, so that they hold up nothing else.

Delivery selects messages that are not done, never "id greater than the last": ids commit out of
order, and late ones would be skipped.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from inventory.hooks import hooks
from inventory.models import OutboxMessage

log = logging.getLogger(__name__)

Handler = Callable[[Any], None]
"""Receives a message's payload, inside the transaction that will mark it done."""


TRACEPARENT = "traceparent"
"""The member of a message's payload that stores the trace which caused the message."""


class NoEffect(Exception):
    """A handler that is called at most once failed before it took effect; the cause says why."""


class Later(Exception):
    """A handler found that its message is not to be handled yet. It is no failure: nothing is
    counted, and the message becomes due again after the pause.

    Args:
        pause: from now on.
    """

    def __init__(self, pause: timedelta) -> None:
        super().__init__(f"not before {pause} have passed")
        self.pause = pause


NO_PAUSE = timedelta(0)
FIRST_PAUSE = timedelta(seconds=2)
MAX_PAUSE = timedelta(minutes=10)
JITTER = 0.25
MAX_ATTEMPTS = 20
"""A failed message is retried after 2 s, 4 s, 8 s …, at most 10 minutes. Each pause is up to 25%
longer, so that messages that failed together do not return together. After 20 attempts, about two
hours, it is dead until an operator retries it."""


def emit(topic: str, payload: Any, *, queue: str = "") -> None:
    """Write a message in the current transaction, which must be the one that causes it."""
    _write([OutboxMessage(topic=topic, queue=queue, payload=_with_parent(payload))])
    transaction.on_commit(hooks.written)


def emit_once(
    topic: str, payloads: Mapping[str, Any], *, queue: str = "", pause: timedelta = NO_PAUSE
) -> None:
    """Write a message per key, except for keys that have one of this topic.

    It is for handlers: the hook `written` is not called, as the worker that delivers goes on by
    itself.

    Args:
        topic: selects the handler.
        payloads: by key.
        queue: whose workers deliver them.
        pause: until they are due.
    """
    _write(
        OutboxMessage(
            topic=topic,
            key=key,
            queue=queue,
            payload=_with_parent(payload),
            not_before=Now() + pause,
        )
        for key, payload in payloads.items()
    )


def _with_parent(payload: Any) -> Any:
    """Return a message's payload with the current span in it, if there is one."""
    if isinstance(payload, dict) and (parent := hooks.parent()):
        return {**payload, TRACEPARENT: parent}
    return payload


def _write(messages: Iterable[OutboxMessage]) -> None:
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("a message belongs to its cause's transaction")
    OutboxMessage.objects.bulk_create(messages, ignore_conflicts=True)


def deliver(
    handlers: Mapping[str, Handler],
    *,
    at_most_once: Mapping[str, Handler] = MappingProxyType({}),
    queue: str = "",
    limit: int = 1000,
    seconds: float = math.inf,
) -> int:
    """Handle the messages that are due; other workers may do so at the same time.

    Args:
        handlers: by topic. A message whose topic has no handler counts as failed. A handler that
            raises `Later` has its message put off without counting a failure.
        at_most_once: further handlers, called after the commit that marks the message done, outside
            any transaction. If one raises `NoEffect`, its message is put off like others that
            failed. After another error or a crash, it may have taken effect, and it is not
            repeated.
        queue: whose messages.
        limit: maximum number of messages.
        seconds: start no further message after this long.

    Returns:
        How many were done.
    """
    done = 0
    end = time.monotonic() + seconds
    for _ in range(limit):
        outcome = _deliver_one(handlers, at_most_once, queue)
        if outcome is None:
            break
        done += outcome
        if time.monotonic() >= end:
            break
    return done


def due(queue: str = "") -> bool:
    """Return whether a message of a queue is due."""
    return _todo(queue).exists()


def upcoming(queue: str, limit: int) -> list[Any]:
    """Return the payloads of the next messages, so that a handler can read for all at once."""
    return list(_todo(queue).order_by("not_before").values_list("payload", flat=True)[:limit])


def retry(messages: QuerySet[OutboxMessage]) -> int:
    """Make those that are not done due at once, with all their attempts; return their number."""
    undone = messages.filter(done__isnull=True)
    return undone.update(dead=None, attempts=0, not_before=Now())


def take_along(topic: str, keys: Iterable[str]) -> list[Any]:
    """Mark further messages done in a handler's transaction, which takes their effect with its own.

    Messages that another worker is handling are left to it. Those that were put off, or are due
    later, are taken.

    Args:
        topic: of the messages.
        keys: which of them.

    Returns:
        Their payloads, in the order in which they were written.
    """
    undone = OutboxMessage.objects.filter(
        topic=topic, key__in=list(keys), done__isnull=True, dead__isnull=True
    )
    taken = list(undone.exclude(key="").select_for_update(skip_locked=True).order_by("pk"))
    OutboxMessage.objects.filter(pk__in=[message.pk for message in taken]).update(
        done=Now(), error=""
    )
    return [message.payload for message in taken]


def pending() -> int:
    """Return the number of messages that are not done, dead ones included."""
    return OutboxMessage.objects.filter(done__isnull=True).count()


def _deliver_one(
    handlers: Mapping[str, Handler], at_most_once: Mapping[str, Handler], queue: str
) -> int | None:
    """Handle one message: 1 if it is done, 0 if it failed, None if there is none."""
    message = None
    try:
        with transaction.atomic():
            message = _next(queue)
            if message is None:
                return None
            once = at_most_once.get(message.topic)
            if once is None:
                _handle(handlers[message.topic], message)
            OutboxMessage.objects.filter(pk=message.pk).update(
                done=Now(), attempts=F("attempts") + 1, error=""
            )
    except Later as later:
        if message is None:
            raise
        OutboxMessage.objects.filter(pk=message.pk, done__isnull=True).update(
            not_before=Now() + later.pause
        )
        return 0
    except Exception as error:
        if message is None:
            raise
        log.exception("message %s (%s) failed", message.pk, message)
        _put_off(message, error)
        return 0
    return 1 if once is None else _handle_once(once, message)


def _handle(handler: Handler, message: OutboxMessage) -> None:
    payload = message.payload
    parent = payload.get(TRACEPARENT, "") if isinstance(payload, dict) else ""
    with hooks.message(message.topic, parent):
        handler(payload)


def _handle_once(handler: Handler, message: OutboxMessage) -> int:
    """Handle a message that is marked done: 1 if it still is, 0 if it had no effect."""
    try:
        _handle(handler, message)
    except NoEffect as error:
        log.exception("message %s (%s) failed", message.pk, message)
        with transaction.atomic():
            OutboxMessage.objects.filter(pk=message.pk).update(done=None)
            _put_off(message, error.__cause__ or error)
        return 0
    except Exception as error:
        log.exception("message %s (%s) may be done: not repeated", message.pk, message)
        OutboxMessage.objects.filter(pk=message.pk).update(error=_text(error))
    return 1


def pause_after(failures: int, first: timedelta = FIRST_PAUSE) -> timedelta:
    """Return the pause after that many failures, at least one; `first` is that after one."""
    pause: timedelta = min(first * 2 ** min(failures - 1, 20), MAX_PAUSE)
    return pause + timedelta(seconds=pause.total_seconds() * JITTER * random.random())


def _put_off(message: OutboxMessage, error: BaseException) -> None:
    attempts = message.attempts + 1
    OutboxMessage.objects.filter(pk=message.pk, done__isnull=True).update(
        attempts=attempts,
        not_before=Now() + pause_after(attempts),
        dead=Now() if attempts >= MAX_ATTEMPTS else None,
        error=_text(error),
    )


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


def _next(queue: str) -> OutboxMessage | None:
    # SKIP LOCKED: do not wait for messages that other workers handle.
    due = _todo(queue).select_for_update(skip_locked=True)
    return due.order_by("not_before").first()


def _todo(queue: str) -> QuerySet[OutboxMessage]:
    undone = OutboxMessage.objects.filter(queue=queue, done__isnull=True, dead__isnull=True)
    return undone.filter(not_before__lte=Now())
