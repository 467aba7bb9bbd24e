"""Two ways of doing nothing: what a request costs before it sells anything."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from shop.api import schemas
from shop.api.operations import Answer, Operation, Result
from shop.api.schemas import Document
from shop.operating import health


class Nothing(Document):
    """A little JSON."""

    ok: bool


@Operation(
    method="POST",
    tag="Orders",
    buyer=True,
    key="required",
    body=schemas.Purchase,
    answers={201: Answer(Nothing, "Nothing was done.")},
)
def nothing(
    request: HttpRequest, sale: int, *, buyer: int, key: UUID, body: schemas.Purchase
) -> Result:
    """Read a purchase, and do nothing."""
    return 201, Nothing(ok=True)


@csrf_exempt
def bare(request: HttpRequest, sale: int) -> HttpResponse:
    """Answer with a short JSON document: a plain Django view, the usual base of comparisons."""
    return JsonResponse({"ok": True}, status=201)


# The path of a purchase, so that all get exactly the same request.
urlpatterns = [
    path("api/v1/sales/<int:sale>/orders", nothing if settings.MIDDLEWARE else bare),
    path("readyz", health.ready),
]
