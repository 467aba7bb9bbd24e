"""Where the payment provider tells what happened."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponse

from shop.api import requests
from shop.api.problems import answer
from shop.api.requests import api
from shop.messages import Refusal
from shop.payments import webhooks
from shop.payments.provider_events import NotYet

log = logging.getLogger(__name__)


@api("POST")
def receive(request: HttpRequest) -> HttpResponse:
    """Take an event: 200 once its effect is committed, now or before. Else it is told again."""
    body = requests.raw_body(request)
    try:
        webhooks.receive(body, request.META.get("HTTP_PSP_SIGNATURE", ""))
    except webhooks.NotFromProvider:
        raise Refusal("bad_signature") from None
    except NotYet:
        raise Refusal("not_yet") from None
    except ValueError:
        log.exception("the payment provider's event cannot be understood: %r", body)
        raise Refusal("invalid_request") from None
    return answer(b'{"received": true}', 200, "application/json")
