"""The icon, for browsers that request the conventional address."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static


def favicon(request: HttpRequest) -> HttpResponse:
    """Redirect to the static file, whose name contains a hash in production."""
    return redirect(static("shop/favicon.svg"))
