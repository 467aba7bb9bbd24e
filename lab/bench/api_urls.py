"""The operation that does nothing: what a call of the API costs before it sells anything."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.urls import path

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


# The purchase's own path, so that the very same request is sent to either.
urlpatterns = [
    path("api/v1/sales/<int:sale>/orders", nothing),
    path("readyz", health.ready),
]
