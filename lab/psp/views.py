"""The provider's API. Each view parses, does one thing, and renders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from msgspec import Meta, Struct
from msgspec.structs import asdict

from lab.psp import behaviour, money
from lab.psp.models import Intent, LedgerLine
from lab.psp.requests import Bad, call, decoded, once

Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class NewIntent(Struct):
    """A payment to create."""

    order: Positive
    amount: Positive
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$", max_length=3)]


class NewRefund(Struct):
    """A refund to make."""

    intent: str
    amount: Positive


@call("GET", "POST")
def intents(request: HttpRequest) -> HttpResponseBase:
    """Create a payment, or list those of an order, oldest first."""
    if request.method == "GET":
        return _intents_of(request.GET.get("order", ""))
    new = decoded(request, NewIntent)
    return once(request, lambda: money.create(new.order, new.amount, new.currency))


@call("POST")
def capture(request: HttpRequest, intent: str) -> HttpResponseBase:
    """Capture a payment."""
    return once(request, lambda: money.capture(intent))


@call("POST")
def cancel(request: HttpRequest, intent: str) -> HttpResponseBase:
    """Cancel a payment."""
    return once(request, lambda: money.cancel(intent))


@call("POST")
def refunds(request: HttpRequest) -> HttpResponseBase:
    """Make a refund."""
    new = decoded(request, NewRefund)
    return once(request, lambda: money.refund(new.intent, new.amount))


@call("GET")
def ledger(request: HttpRequest) -> HttpResponseBase:
    """Stream all movements, one JSON object per line, and their number on the last line."""
    return StreamingHttpResponse(_ledger_lines(), content_type="application/jsonl")


@call("GET", "POST")
def conduct(request: HttpRequest) -> HttpResponseBase:
    """Return or change the behaviour; in the demo only."""
    if not settings.PSP_BEHAVIOUR_MAY_CHANGE:
        raise Bad(404, "not_found")
    if request.method == "GET":
        return JsonResponse(asdict(behaviour.current()))
    try:
        return JsonResponse(asdict(behaviour.change(decoded(request, dict[str, Any]))))
    except ValueError as error:
        raise Bad(400, str(error)) from None


def alive(request: HttpRequest) -> HttpResponse:
    """Answer 200: the process serves."""
    return HttpResponse("ok\n", content_type="text/plain")


def _intents_of(order: str) -> HttpResponse:
    if not order.isdecimal() or int(order) >= 2**63:
        raise Bad(400, "invalid_order")
    found = Intent.objects.filter(order=int(order)).order_by("created", "pk")
    return JsonResponse({"data": [money.intent_document(intent) for intent in found]})


def _ledger_lines() -> Iterator[str]:
    count = 0
    for line in LedgerLine.objects.select_related("intent").order_by("pk").iterator():
        document = {
            "id": line.pk,
            "order": line.intent.order,
            "intent": line.intent_id,
            "operation": line.operation,
            "amount": line.amount,
            "currency": line.intent.currency,
        }
        count += 1
        yield json.dumps(document) + "\n"
    yield json.dumps({"lines": count}) + "\n"
