"""Follow up orders: record the mails that are owed, then send them.

Recording a mail happens in the transaction that marks the outbox message done: exactly one row per
order and kind, however often the message is delivered. Sending follows and is retried; after a
crash, a mail may be sent twice with the same Message-ID.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from smtplib import SMTPException
from typing import Any

from django.core.mail import get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from inventory import failpoints, outbox
from inventory.metrics import metrics
from inventory.tracing import hooks
from shop import orders, tracing
from shop.background import expiry
from shop.mails import password_reset, rendering
from shop.mails.models import Mail
from shop.orders.models import OrderEvent

log = logging.getLogger(__name__)

Kind = Mail.Kind
Event = OrderEvent.Kind

MAILS_AT_ONCE = 50
"""Mails per transaction: those that a crash may send twice."""

LONGEST_SENDING = "30min"
"""For so many mails, at a mail server that hardly answers (EMAIL_TIMEOUT)."""


def _owes(kind: Kind) -> Callable[[Any], None]:
    def handle(payload: Any) -> None:
        failpoints.hit(failpoints.FOLLOW_UP)
        trace = hooks.parent()
        owed = [Mail(order_id=order, kind=kind, trace=trace) for order in payload["orders"]]
        Mail.objects.bulk_create(owed, ignore_conflicts=True)

    return handle


def _opened(payload: Any) -> None:
    _owes(Kind.CONFIRMATION)(payload)
    expiry.enter(payload["orders"])


def _settled(payload: Any) -> None:
    expiry.leave(payload["orders"])


def _paid(payload: Any) -> None:
    _owes(Kind.PAID)(payload)
    _settled(payload)


def _nothing(payload: Any) -> None:
    """Do nothing; a real shop would notify its warehouse here."""


HANDLERS = {orders.topic(event): _nothing for event in Event} | {
    orders.OPENED: _opened,
    orders.topic(Event.PAID): _paid,
    orders.topic(Event.PAID_LATE): _paid,
    orders.topic(Event.CANCELLED): _settled,
    orders.topic(Event.EXPIRED): _owes(Kind.EXPIRED),
    orders.topic(Event.REFUNDED): _owes(Kind.REFUNDED),
    orders.topic(Event.MONEY_OWED): _owes(Kind.TOO_LATE),
    password_reset.TOPIC: password_reset.send,
}
"""Handlers by topic of the outbox message."""


def follow_up() -> int:
    """Deliver the outbox and send the mails owed; return the number of messages done."""
    done = deliver()
    while send_mails():
        _may_take(LONGEST_SENDING)
    return done


def deliver(seconds: float = math.inf) -> int:
    """Deliver the outbox for at most that long; return the number of messages done."""
    return outbox.deliver(HANDLERS, seconds=seconds)


def send_mails() -> int:
    """Send some of the mails owed; return their number. Other workers may do so concurrently.

    A mail that fails is put off and does not block the others. While the mail server does not
    answer, all mails stay as they are.
    """
    with transaction.atomic():
        owed = list(_owed())
        if not owed:
            return 0
        _may_take(LONGEST_SENDING)
        server = get_connection()
        try:
            server.open()
        except (OSError, SMTPException) as error:
            metrics.count("mails", "postponed", by=len(owed))
            log.warning("the mail server does not answer (%s); %s mails wait", error, len(owed))
            return 0
        try:
            sent = [mail.pk for mail in owed if _send(mail, server)]
        finally:
            server.close()
        Mail.objects.filter(pk__in=sent).update(sent=Now(), attempts=F("attempts") + 1, error="")
        metrics.count("mails", "sent", by=len(sent))
    return len(sent)


def _may_take(time: str) -> None:
    """Let this transaction wait for a mail server for longer than others may be idle.

    It has locked only mails. If the server ended it, all of them would be sent again.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [time])


def _owed() -> QuerySet[Mail]:
    return (
        Mail.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("order__buyer")
        .prefetch_related("order__lines__sale__product")
        .filter(sent__isnull=True, dead__isnull=True, not_before__lte=Now())
        .order_by("not_before")[:MAILS_AT_ONCE]
    )


def _send(mail: Mail, server: BaseEmailBackend) -> bool:
    try:
        with tracing.sending(mail.kind, mail.trace):
            server.send_messages([rendering.message(mail)])
    except Exception as error:
        metrics.count("mails", "failed")
        log.exception("%s could not be sent", mail, extra={"order": mail.order_id})
        attempts = mail.attempts + 1
        Mail.objects.filter(pk=mail.pk).update(
            attempts=attempts,
            not_before=Now() + outbox.pause_after(attempts),
            dead=Now() if attempts >= outbox.MOST_ATTEMPTS else None,
            error=f"{type(error).__name__}: {error}"[:2000],
        )
        return False
    return True
