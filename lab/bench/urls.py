"""A view of Django that does nothing: what most people compare with."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from shop.operating import health


@csrf_exempt
def nothing(request: HttpRequest, sale: int) -> HttpResponse:
    """Answer with a short JSON document."""
    return JsonResponse({"ok": True}, status=201)


# The path of a purchase, so that both get exactly the same request.
urlpatterns = [
    path("api/v1/sales/<int:sale>/orders", nothing),
    path("readyz", health.ready),
]
