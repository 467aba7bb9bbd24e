"""Webhooks of the payment provider: apply each event once.

The adapter of the provider checks the signature and reads the events (`Provider.verify`). The
provider sends each event at least once, in any order. An event's row is written in the transaction
of its effect: a repeated event finds it and changes nothing; a failed one leaves no row and is sent
again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta

from django.db import connection, transaction

from shop.catalogue.sales import database_time
from shop.payments import paying, settlement
from shop.payments.models import Payment
from shop.payments.provider import Event, Intent, PaymentUnknown, ProviderRefund, provider

log = logging.getLogger(__name__)

MAX_EVENT = 1024 * 1024
"""Bytes of an event at most."""

OLD = timedelta(hours=6)
"""Age after which an event is acknowledged though its payment or refund may not be known yet:
what began so long ago has been settled by asking the provider. Refused for days, a provider would
stop sending events at all."""

REMEMBER = """
INSERT INTO shop_webhookevent (id, type) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""


def receive(body: bytes, headers: Mapping[str, str]) -> None:
    """Apply the events of a webhook, unless they were applied before.

    Args:
        body: exactly as received; re-encoding could change what was signed.
        headers: of the request, by name in any case.

    Raises:
        NotFromProvider: the signature is wrong or old; nothing was read.
        ValueError: it is signed but cannot be parsed.
        DataError: it is signed but cannot be stored.
        settlement.NotYet: it is about something that is not known here yet; nothing was written.
    """
    for event in provider().verify(body, headers):
        _apply(event)
        if isinstance(event.about, Intent) and event.about.status == "requires_capture":
            _capture(event.about)


def _apply(event: Event) -> None:
    try:
        with transaction.atomic():
            # A concurrent repeat waits here until this one's effect is committed or rolled back.
            if _remember(event.id, event.type):
                _effect(event)
    except settlement.NotYet:
        if event.created is None or event.created > (database_time() - OLD).timestamp():
            raise
        message = "the provider's event %s (%s) is old, and about nothing that is known here"
        log.warning(message, event.id, event.type)


def _effect(event: Event) -> None:
    about = event.about
    if isinstance(about, Intent):
        settlement.record_payment(about)
    elif isinstance(about, ProviderRefund):
        settlement.record_refund_outcome(about)
    elif about is not None:
        settlement.record_dispute(about)


def _capture(intent: Intent) -> None:
    """Capture at once what the buyer has authorised; after a failure, the sweep does it."""
    found = Payment.objects.filter(intent=intent.id, state=Payment.State.PENDING)
    payment = found.select_related("order").first()
    if payment is None:
        return
    try:
        paying.advance(payment)
    except PaymentUnknown as error:
        message = "%s: the provider gives no answer (%s); will ask again"
        log.warning(message, payment, error, extra={"order": payment.order_id})


def _remember(pk: str, kind: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(REMEMBER, [pk, kind])
        return bool(cursor.rowcount == 1)
