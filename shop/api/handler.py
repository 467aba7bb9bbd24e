"""The API's handler: what Django does around a view, less what only pages need.

A purchase spends more CPU time in sessions, cookies, languages, signals and URL patterns, none of
which it uses, than in the database. So calls of the API go past Django's handler and its
middleware. What they do need of it is here: the route, the security headers, and the database
connection's return to the pool. Errors are answered and logged by the operation itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.urls import get_resolver
from django.utils.functional import cached_property

from inventory.metrics import metrics
from inventory.selling.commit import lend_connections
from shop import headers, logs
from shop.api.routes import API, RouteTable, routes

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class ApiRequest(WSGIRequest):
    """A request whose path, form, cookies and uploads are not prepared: no call of the API asks.

    Unlike Django's, it leaves its environ as it is, which Django may be given after it.
    """

    def __init__(self, environ: Environ) -> None:
        self.environ = self.META = environ
        self.path = self.path_info = environ["PATH_INFO"]
        self.method = environ["REQUEST_METHOD"]

    @cached_property
    def body(self) -> bytes:
        """The body as it came; read at most once, and only as far as the request says."""
        length: str = self.META.get("CONTENT_LENGTH") or "0"
        data: bytes = self.META["wsgi.input"].read(int(length))
        return data


class ApiHandler:
    """A WSGI application that answers the API's calls, and passes on everything else.

    Args:
        pages: the application for everything else.
    """

    def __init__(self, pages: Application) -> None:
        self._pages = pages
        self._routes = RouteTable(routes(get_resolver().url_patterns))
        self._headers = _security_headers()
        self._https_only = settings.SECURE_SSL_REDIRECT

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        logs.begin_request(environ)
        if not environ["PATH_INFO"].startswith(API):
            return self._pages(environ, start_response)
        try:
            response = self.respond(ApiRequest(environ))
        finally:
            # As at the end of every request of Django's; what an answer streams takes another.
            lend_connections()
        if response is None:
            return self._pages(environ, start_response)
        sent = [*response.items(), *self._headers]
        start_response(_STATUS_LINES[response.status_code], sent)
        # The server closes what is streamed, by which Django gives its connection back.
        return response if response.streaming else (response.content,)  # type: ignore[attr-defined]

    def respond(self, request: WSGIRequest) -> HttpResponseBase | None:
        """Answer a call of the API.

        Returns:
            The response; None if Django is to answer: there is no such path, or the call came by
            plain HTTP where only HTTPS is served.
        """
        found = self._routes.find(request.path_info)
        if found is None or (self._https_only and not request.is_secure()):
            return None
        view, ids = found
        start = time.perf_counter()
        response = view(request, **ids)
        seconds = time.perf_counter() - start
        metrics.observe("api_seconds", seconds, view.__name__, str(response.status_code))
        return response


def _security_headers() -> list[tuple[str, str]]:
    """Return Django's headers and ours, which are the same for every call."""
    request = WSGIRequest(
        {"REQUEST_METHOD": "GET", "wsgi.url_scheme": "https", "wsgi.input": BytesIO()}
    )
    response = HttpResponse()
    SecurityMiddleware(lambda _: response)(request)
    del response.headers["Content-Type"]
    return [*response.headers.items(), *headers.ALL_CALLS.items()]
