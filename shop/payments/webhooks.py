"""The payment provider's news: is it from the provider, is it fresh, and acted upon once.

The provider tells at least once and in any order. Each event's row is written in the transaction of
its effect, so a repetition finds it and changes nothing, and an event whose effect failed leaves no
row and is told again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from shop.catalogue.sales import database_time
from shop.payments import provider_events
from shop.payments.http_provider import intent_of, refund_of

TOLERANCE = 5 * 60
"""Seconds between the signature and now. Bounds for how long a recorded webhook could be sent again
by somebody else; within that, the event's id tells that it is known."""

SIGNATURE = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")

REMEMBER = """
INSERT INTO shop_webhookevent (id, type) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""

EFFECTS: Mapping[str, Callable[[Any], None]] = {
    "payment_intent.captured": lambda data: provider_events.captured(intent_of(data)),
    "payment_intent.failed": lambda data: provider_events.failed(intent_of(data)),
    "payment_intent.cancelled": lambda data: provider_events.failed(intent_of(data)),
    "refund.succeeded": lambda data: provider_events.refunded(refund_of(data)),
    "refund.failed": lambda data: provider_events.refunded(refund_of(data)),
}
"""What each kind of news does. Others are taken and do nothing: providers invent new ones."""


class NotFromProvider(Exception):
    """Not signed by the provider, or too long ago."""


def receive(body: bytes, signature: str) -> None:
    """Act upon an event, unless that was done before.

    Args:
        body: as it came; parsing and writing it again could change what was signed.
        signature: of the header ``PSP-Signature``.

    Raises:
        NotFromProvider: the signature is wrong or old; nothing was read.
        ValueError: it is signed and yet cannot be understood.
        effects.NotYet: it is about something that is not here yet; nothing was written.
    """
    verify(body, signature)
    try:
        event = json.loads(body)
        pk, kind, data = str(event["id"]), str(event["type"]), event["data"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no event: {error!r}") from error
    with transaction.atomic():
        # A repetition that comes meanwhile waits here until this one's effect is committed or gone.
        if _remember(pk, kind) and kind in EFFECTS:
            EFFECTS[kind](data)


def verify(body: bytes, signature: str) -> None:
    """Check that the provider signed this, and lately.

    Raises:
        NotFromProvider: it did not.
    """
    found = SIGNATURE.fullmatch(signature)
    if not found:
        raise NotFromProvider
    signed = found[1].encode() + b"." + body
    expected = hmac.new(settings.PSP_WEBHOOK_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, found[2]):
        raise NotFromProvider
    # Only now: strangers cost no query. The database's clock, as everywhere: a process's own may
    # have been set.
    if abs(database_time().timestamp() - int(found[1])) > TOLERANCE:
        raise NotFromProvider


def _remember(pk: str, kind: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(REMEMBER, [pk, kind])
        return cursor.rowcount == 1
