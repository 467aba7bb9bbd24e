"""A view of Django that does nothing: what most people compare with."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from shop import health


@csrf_exempt
def nothing(request: HttpRequest, sale: int) -> HttpResponse:
    """Answer with a little JSON."""
    return JsonResponse({"ok": True}, status=201)


# The purchase's own path, so that the very same request is sent to either.
urlpatterns = [
    path("api/v1/sales/<int:sale>/orders", nothing),
    path("readyz", health.ready),
]
