"""Delete what nobody needs any more, once a day: sessions, messages, events and typed addresses.

| what | kept for |
|---|---|
| sessions | until they expire |
| done messages of the outbox | `KEEP_MESSAGES`: one of a mail keeps it from being sent again |
| provider's events that were applied | `KEEP_EVENTS`: each takes effect once |
| typed addresses that were not confirmed | as long as their link can be used |
| counts of mails by address | `KEEP_COUNTS`, longer than any limit of mails looks back |

Each run deletes at most `MAX_ROWS` of each, in statements of `AT_ONCE` rows, so that it neither
holds locks for long nor fills the log of the database. What is left is deleted by the next run.
Messages that are dead or waiting stay. Two runs at once, or a run twice, do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.db.models.functions import Now

from inventory.models import OutboxMessage
from shop.accounts.addresses import LINK_VALID
from shop.accounts.models import AddressMails, PendingAddress
from shop.payments.models import WebhookEvent

KEEP_MESSAGES = timedelta(days=30)
KEEP_EVENTS = timedelta(days=90)
KEEP_COUNTS = timedelta(days=1)

MAX_ROWS = 100_000
"""Rows of one kind that a run deletes at most."""

AT_ONCE = 1000
"""Rows that one statement deletes."""


def clean_up() -> dict[str, int]:
    """Delete old rows; return how many, by kind."""
    return {name: _delete(rows) for name, rows in _old().items()}


def _old() -> Mapping[str, QuerySet[Any]]:
    return {
        "sessions": Session.objects.filter(expire_date__lt=Now()).order_by("expire_date"),
        "messages": OutboxMessage.objects.filter(done__lt=Now() - KEEP_MESSAGES).order_by("pk"),
        "events": WebhookEvent.objects.filter(received__lt=Now() - KEEP_EVENTS).order_by(),
        "addresses": PendingAddress.objects.filter(since__lt=Now() - LINK_VALID).order_by("since"),
        "counts": AddressMails.objects.filter(since__lt=Now() - KEEP_COUNTS).order_by("since"),
    }


def _delete(rows: QuerySet[Any]) -> int:
    deleted = 0
    while deleted < MAX_ROWS:
        chosen = list(rows.values_list("pk", flat=True)[: min(AT_ONCE, MAX_ROWS - deleted)])
        if not chosen:
            break
        # The condition again: a row may have changed since it was read.
        rows.order_by().filter(pk__in=chosen).delete()
        deleted += len(chosen)
    return deleted
