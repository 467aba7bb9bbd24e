"""Webhooks of the payment provider: verify signature and age, apply each event once.

The provider sends each event at least once, in any order. An event's row is written in the
transaction of its effect: a repeated event finds it and changes nothing; a failed one leaves no row
and is sent again.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.db import connection, transaction
from msgspec import Meta, Struct, convert

from shop.catalogue.sales import database_time
from shop.payments import settlement
from shop.payments.provider import Dispute, Intent, ProviderRefund

log = logging.getLogger(__name__)

TOLERANCE = 5 * 60
"""Maximum age of a signature in seconds. Bounds how long a recorded webhook could be replayed;
within that time, the event's id identifies a replay."""

MAX_EVENT = 1024 * 1024
"""Bytes of an event at most."""

OLD = timedelta(hours=6)
"""Age after which an event is acknowledged though its payment or refund may not be known yet:
what began so long ago has been settled by asking the provider. Refused for days, a provider would
stop sending events at all."""

SIGNATURE = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")

REMEMBER = """
INSERT INTO shop_webhookevent (id, type) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""

EFFECTS: Mapping[str, Callable[[Any], None]] = {
    "payment_intent.captured": lambda data: settlement.captured(convert(data, Intent)),
    "payment_intent.failed": lambda data: settlement.failed(convert(data, Intent)),
    "payment_intent.cancelled": lambda data: settlement.failed(convert(data, Intent)),
    "refund.succeeded": lambda data: settlement.refunded(convert(data, ProviderRefund)),
    "refund.failed": lambda data: settlement.refunded(convert(data, ProviderRefund)),
    "dispute.created": lambda data: settlement.disputed(convert(data, Dispute)),
    "dispute.updated": lambda data: settlement.disputed(convert(data, Dispute)),
    "dispute.closed": lambda data: settlement.disputed(convert(data, Dispute)),
}
"""Effect by event type. Other types do nothing: providers add new ones."""


class Event(Struct, frozen=True):
    """An event of the payment provider. Types and members unknown to the shop are ignored."""

    # The lengths are those of the columns, which refuse more.
    id: Annotated[
        str,
        Meta(
            description="The provider's own; an event of the same id takes effect once.",
            extra_json_schema={"maxLength": 100},
        ),
    ]
    type: Annotated[str, Meta(examples=[*EFFECTS], extra_json_schema={"maxLength": 60})]
    data: Annotated[dict[str, Any], Meta(description="The payment, refund or dispute after it.")]
    created: Annotated[float | None, Meta(description="Seconds since 1970.")] = None


class NotFromProvider(Exception):
    """The signature is wrong or too old."""


def receive(body: bytes, signature: str) -> None:
    """Apply an event, unless it was applied before.

    Args:
        body: exactly as received; re-encoding could change what was signed.
        signature: of the header `PSP-Signature`.

    Raises:
        NotFromProvider: the signature is wrong or old; nothing was read.
        ValueError: it is signed but cannot be parsed.
        DataError: it is signed but cannot be stored.
        settlement.NotYet: it is about something that is not known here yet; nothing was written.
    """
    now = _verify(body, signature)
    try:
        event = msgspec.json.decode(body, type=Event)
    except RecursionError as error:
        raise ValueError("no event") from error
    try:
        with transaction.atomic():
            # A concurrent repeat waits here until this one's effect is committed or rolled back.
            if _remember(event.id, event.type) and event.type in EFFECTS:
                EFFECTS[event.type](event.data)
    except settlement.NotYet:
        created = event.created
        if created is None or created > (now - OLD).timestamp():
            raise
        message = "the provider's event %s (%s) is old, and about nothing that is known here"
        log.warning(message, event.id, event.type)


def _verify(body: bytes, signature: str) -> datetime:
    """Check signature and age; return the database's time."""
    match = SIGNATURE.fullmatch(signature)
    if not match:
        raise NotFromProvider
    signed = match[1].encode() + b"." + body
    expected = hmac.new(settings.PSP_WEBHOOK_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, match[2]):
        raise NotFromProvider
    # Only after the signature, so that a forged call costs no query. By the database's clock, as
    # everywhere, because a process's clock may be wrong.
    now = database_time()
    if abs(now.timestamp() - int(match[1])) > TOLERANCE:
        raise NotFromProvider
    return now


def _remember(pk: str, kind: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(REMEMBER, [pk, kind])
        return bool(cursor.rowcount == 1)
