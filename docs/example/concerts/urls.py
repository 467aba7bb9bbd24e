"""POST /concerts/1/bookings with an Idempotency-Key and {"guest": 7, "seats": 2}."""

import json
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from concerts.bookings import book
from inventory.outcomes import Busy, Granted, OutcomeUnknown


@csrf_exempt
@require_POST
def bookings(request: HttpRequest, concert: int) -> JsonResponse:
    """Book seats. A repeated key gets the same booking."""
    wanted = json.loads(request.body)
    key = UUID(request.headers["Idempotency-Key"])
    try:
        outcome = book(concert, wanted["guest"], key, wanted["seats"])
    except (Busy, OutcomeUnknown) as later:
        code = "busy" if isinstance(later, Busy) else "outcome_unknown"
        return JsonResponse({"code": code}, status=503, headers={"Retry-After": "1"})
    if isinstance(outcome, Granted):
        status = 200 if outcome.replayed else 201
        return JsonResponse({"booking": outcome.reservation}, status=status)
    return JsonResponse({"code": type(outcome).__name__}, status=409)


urlpatterns = [path("concerts/<int:concert>/bookings", bookings)]
