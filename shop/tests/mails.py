"""Mails about orders, as the outbox has them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from inventory.models import OutboxMessage
from shop.mails.rendering import Kind
from shop.mails.sending import QUEUE, topic


def mails(order: Any) -> QuerySet[OutboxMessage]:
    """Return the messages of the mails about an order."""
    return OutboxMessage.objects.filter(queue=QUEUE, key=str(order.pk))


def mail(order: Any, kind: str = "confirmation") -> QuerySet[OutboxMessage]:
    """Return the message of one mail, if there is one."""
    return mails(order).filter(topic=topic(Kind(kind)))


def sent(order: Any, kind: str = "confirmation") -> bool:
    """Return whether the mail server has taken a mail."""
    return mail(order, kind).filter(done__isnull=False).exists()
