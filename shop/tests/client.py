"""Django's test client, in front of the same handlers as in production."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http.response import HttpResponseBase
from django.test.client import ClientHandler

from shop.api.handler import ApiHandler


@cache
def _api(root_urlconf: str, https_only: bool) -> ApiHandler:
    return ApiHandler(WSGIHandler())


def install() -> None:
    """Let every test client send calls of the API to the API's handler."""
    to_django = ClientHandler.get_response

    def get_response(self: ClientHandler, request: WSGIRequest) -> HttpResponseBase:
        api = _api(settings.ROOT_URLCONF, settings.SECURE_SSL_REDIRECT)
        return api.respond(request) or to_django(self, request)

    ClientHandler.get_response = get_response  # type: ignore[method-assign, assignment]
