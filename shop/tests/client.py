"""Django's test client, in front of the same handlers as in production."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http.response import HttpResponseBase
from django.test.client import ClientHandler

from shop.api.handler import ApiHandler, Serving
from shop.api.problems import Reply
from shop.shares import of_page


@cache
def _api(root_urlconf: str, https_only: bool, hosts: tuple[str, ...]) -> ApiHandler:
    return ApiHandler(WSGIHandler())


def install() -> None:
    """Let every test client send calls of the API to the API's handler."""
    to_django = ClientHandler.get_response

    def get_response(self: ClientHandler, request: WSGIRequest) -> HttpResponseBase:
        hosts = tuple(settings.ALLOWED_HOSTS)
        api = _api(settings.ROOT_URLCONF, settings.SECURE_SSL_REDIRECT, hosts)
        answer = api.respond(request)
        if answer is None:
            with Serving(of_page(request.META)):
                return to_django(self, request)
        return answer.response() if isinstance(answer, Reply) else answer

    ClientHandler.get_response = get_response  # type: ignore[method-assign, assignment]
