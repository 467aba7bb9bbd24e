"""Send mails, which are messages of the outbox in a queue of their own: a mail server may hang.

A mail about an order is one message per order and kind. It is done once the mail server has taken
the mail; after a crash in between, the mail is sent twice with the same Message-ID.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from functools import partial
from smtplib import SMTPException
from typing import Any

from django.core.mail import get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection

from inventory import outbox
from inventory.metrics import metrics
from shop.mails import password_reset, rendering
from shop.mails.rendering import Kind
from shop.orders.models import Order

log = logging.getLogger(__name__)

QUEUE = "mail"

MAX_MAILS = 50
"""Mails per connection: those that fail when it breaks."""

MAX_SENDING = "5min"
"""For one mail, at a server that hardly answers (EMAIL_TIMEOUT is per answer)."""


def topic(kind: Kind) -> str:
    """Return the topic of messages that send a mail; their key is the order's id."""
    return f"mails.{kind}"


def enqueue(kind: Kind, orders: Iterable[int]) -> None:
    """Let each order's buyer get a mail, once however often this is called."""
    mails = {str(order): {"order": order} for order in orders}
    outbox.emit_once(topic(kind), mails, queue=QUEUE)


def send_mails(seconds: float = math.inf) -> int:
    """Send some mails for at most that long; return their number. Workers may do so concurrently.

    A mail that fails is put off and does not block the others. While the mail server does not
    answer, all mails stay as they are.
    """
    waiting = outbox.upcoming(QUEUE, MAX_MAILS)
    if not waiting:
        return 0
    server = get_connection()
    try:
        server.open()
    except (OSError, SMTPException) as error:
        metrics.count("mails", "postponed")
        log.warning("the mail server does not answer (%s); the mails wait", error)
        return 0
    orders = _read(payload["order"] for payload in waiting if "order" in payload)
    try:
        return outbox.deliver(
            {topic(kind): partial(_send, server, orders, kind) for kind in Kind},
            at_most_once={password_reset.TOPIC: password_reset.send},
            queue=QUEUE,
            limit=MAX_MAILS,
            seconds=seconds,
        )
    finally:
        server.close()


def _read(orders: Iterable[int]) -> dict[int, Order]:
    return Order.objects.with_lines().select_related("buyer").in_bulk(list(orders))


def _send(server: BaseEmailBackend, orders: Mapping[int, Order], kind: Kind, payload: Any) -> None:
    # The server would end a transaction that is idle for longer, and the mail would be sent again.
    # This one has locked only the mail's message.
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{MAX_SENDING}'")
    about = payload["order"]
    order = orders.get(about) or _read([about])[about]  # it became due meanwhile
    try:
        server.send_messages([rendering.message(kind, order)])
    except Exception:
        metrics.count("mails", "failed")
        raise
    metrics.count("mails", "sent")
