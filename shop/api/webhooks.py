"""Where the payment provider reports what happened."""

from __future__ import annotations

import logging

from django.db import DataError
from django.http import HttpRequest

from shop.api import schemas
from shop.api.operations import Answer, Operation, Result
from shop.payments import webhooks
from shop.payments.settlement import NotYet
from shop.refusals import Refusal
from shop.shares import ORDERS

log = logging.getLogger(__name__)


@Operation(
    method="POST",
    tag="Payments",
    share=ORDERS,
    signed_body=webhooks.Event,
    headers={
        "PSP-Signature": "`t=`, the seconds since 1970, then `,v1=` and the HMAC-SHA256, in "
        "hexadecimal, of those seconds, a point and the raw body under the webhook secret."
    },
    answers={200: Answer(schemas.Received, "Its effect is committed, now or earlier.")},
    problems=("bad_signature", "not_yet", "invalid_request"),
)
def receive_webhook(request: HttpRequest, *, body: bytes) -> Result:
    """Take news of the payment provider.

    Called by the payment provider, at least once for each event and in any order. It repeats the
    event after any answer but 200.
    """
    try:
        webhooks.receive(body, request.META.get("HTTP_PSP_SIGNATURE", ""))
    except webhooks.NotFromProvider:
        raise Refusal("bad_signature") from None
    except NotYet:
        raise Refusal("not_yet") from None
    except DataError as error:
        # A text contains NUL or is longer than its column.
        log.warning("the payment provider's event cannot be stored: %s", error)
        raise Refusal("malformed", detail="A text contains NUL or is too long.") from None
    except ValueError:
        log.exception("the payment provider's event cannot be understood: %r", body)
        raise Refusal("invalid_request") from None
    return 200, schemas.Received()
