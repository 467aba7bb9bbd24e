"""The API's handler: what Django does around a view, without what only pages need.

Through Django's own handler, a purchase would spend more CPU time in sessions, cookies, languages,
signals and URL patterns, none of which it uses, than in the database. So calls of the API go past
that handler and its middleware. This module does what they do need: it finds the route, checks the
host name, adds the security headers, and returns the database connection to the pool. The operation
itself (`shop/api/operations.py`) answers and logs errors. Middleware that a team adds runs for the
API too (`shop/operating/added_middleware.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from http import HTTPStatus
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.functional import cached_property

from inventory.postgresql.base import Share, borrowing_from, lend_connections
from shop import shares
from shop.api.problems import Reply, problem
from shop.operating import added_middleware, headers, logs, metrics
from shop.shares import OPERATORS, PURCHASES, READERS, of_page

API = "/api/v1/"
"""Where the API's paths begin."""

DOCUMENT = f"{API}openapi.json"
"""Path of the API's description, which is served with the pages."""

PROBES = frozenset({"/healthz", "/livez", "/readyz"})
"""Paths that every web process answers, whether it serves pages, the API or both."""

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class ApiRequest(WSGIRequest):
    """A request without the preparation of forms, cookies and uploads, which the API does not use.

    Unlike Django's, it does not change its environ, because Django may get the same environ after
    it.
    """

    def __init__(self, environ: Environ) -> None:
        self.environ = self.META = environ
        self.path = self.path_info = environ["PATH_INFO"]
        self.method = environ["REQUEST_METHOD"]

    @cached_property
    def body(self) -> bytes:
        """The body as it came; read once, and at most as many bytes as its Content-Length says."""
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
        # Django's patterns take 17 µs, and a sale's buyers all ask for the same path.
        self._route = lru_cache(maxsize=4096)(_route)
        self._headers = _security_headers()
        self._headers_but_cache = [
            header for header in self._headers if header[0] != "Cache-Control"
        ]
        added = added_middleware.added()
        self._added = added_middleware.Chain(added) if added else None
        self._https_only = settings.SECURE_SSL_REDIRECT
        forwarded = settings.USE_X_FORWARDED_HOST
        self._host_header = "HTTP_X_FORWARDED_HOST" if forwarded else "HTTP_HOST"
        # To look a series up by its labels takes longer than to count in it.
        self._seconds_of = cache(metrics.API_SECONDS.labels)
        # Django's check of a host takes 5 µs, and a sale's calls name the same few hosts.
        self._serves_name = lru_cache(maxsize=100)(_serves_name)
        self._serves_calls = settings.SHOP_SERVES != "pages"
        self._serves_pages = settings.SHOP_SERVES != "api"

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        logs.request.set(environ)
        path = environ["PATH_INFO"]
        if not path.startswith(API) or path == DOCUMENT:
            if self._serves_pages or path in PROBES:
                return self._page(environ, start_response)
            return _refuse_path(start_response)
        if not self._serves_calls:
            return _refuse_path(start_response)
        try:
            reply = self.respond(ApiRequest(environ))
        finally:
            # As Django does at the end of a request. A streamed answer takes another connection.
            lend_connections()
        if reply is None:
            return self._page(environ, start_response)
        if isinstance(reply, Reply):
            of_body = [
                ("Content-Type", reply.content_type),
                ("Content-Length", str(len(reply.body))),  # or it would be sent in chunks
            ]
            more = self._headers_but_cache if reply.cached else self._headers
            start_response(_STATUS_LINES[reply.status], [*of_body, *reply.headers, *more])
            return (reply.body,)
        start_response(f"{reply.status_code} {reply.reason_phrase}", self._headers_of(reply))
        # The server closes a streamed response, and Django then gives its connection back.
        return reply

    def _headers_of(self, response: HttpResponseBase) -> list[tuple[str, str]]:
        """Return a Django response's headers, and those of ours that it does not set itself."""
        of_response = [*response.items()]
        if isinstance(response, HttpResponse) and "Content-Length" not in response.headers:
            of_response.append(("Content-Length", str(len(response.content))))
        of_response += [
            ("Set-Cookie", cookie.OutputString()) for cookie in response.cookies.values()
        ]
        missing = [header for header in self._headers if header[0] not in response.headers]
        return of_response + missing

    def _page(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        share = of_page(environ)
        waits = share in {READERS, OPERATORS} and environ["PATH_INFO"] not in PROBES
        with Serving(share, waits=waits):
            return self._pages(environ, start_response)

    def respond(self, request: WSGIRequest) -> Reply | HttpResponseBase | None:
        """Answer a call of the API.

        Returns:
            The reply, or a response that is streamed. None if Django has to answer, because there
            is no such path, or the call came by plain HTTP where only HTTPS is served.
        """
        host = request.META.get(self._host_header)
        if not (_serves(request) if host is None else self._serves_name(host)):
            return problem(request, "unknown_host")
        match = self._route(request.path_info)
        if match is None or (self._https_only and not request.is_secure()):
            return None
        found, serving = match
        view: Any = found.func
        start = time.perf_counter()
        with serving:
            reply: Reply | HttpResponseBase
            if self._added:
                whole = WSGIRequest(request.environ)
                whole.resolver_match = found
                reply = self._added(whole)
            else:
                reply = view.call(request, **found.kwargs)
        seconds = time.perf_counter() - start
        status = reply.status if isinstance(reply, Reply) else reply.status_code
        name = view.methods.get(request.method, view).__name__
        self._seconds_of(name, status).observe(seconds)
        return reply


def _refuse_path(start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request that the proxy should have sent to another process (`SHOP_SERVES`)."""
    body = b"Another process of this shop serves this path (SHOP_SERVES).\n"
    about = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response(_STATUS_LINES[404], about)
    return (body,)


def _route(path: str) -> tuple[ResolverMatch, Serving] | None:
    """Return the operation of a path, and the share that it uses; None if no operation has it."""
    try:
        match = resolve(path)
    except Resolver404:
        return None
    operation = getattr(match.func, "operation", None)
    return (match, Serving(operation.share)) if operation else None


def _serves(request: HttpRequest) -> bool:
    """Return whether `ALLOWED_HOSTS` contains the host that a request names."""
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return True


def _serves_name(host: str) -> bool:
    request = HttpRequest()
    request.META["HTTP_HOST"] = host
    return _serves(request)


def _security_headers() -> list[tuple[str, str]]:
    """Return Django's headers and ours, which are the same for every call."""
    request = WSGIRequest(
        {"REQUEST_METHOD": "GET", "wsgi.url_scheme": "https", "wsgi.input": BytesIO()}
    )
    response = HttpResponse()
    SecurityMiddleware(lambda _: response)(request)
    del response.headers["Content-Type"]
    return [*response.headers.items(), *headers.ALL_CALLS.items()]


class Serving:
    """A context manager around a request, which then borrows connections from its share.

    While purchases are served, it lets other requests wait for their turn (`shop/shares.py`). It is
    a class because a generator would take several times as long, for every purchase.

    Args:
        share: the share that the request belongs to.
        waits: whether the request waits while purchases are served; None: only readers wait.
    """

    __slots__ = ("_share", "_waits")

    def __init__(self, share: Share, *, waits: bool | None = None) -> None:
        self._share = share
        self._waits = share is READERS if waits is None else waits

    def __enter__(self) -> None:
        borrowing_from.set(self._share)
        if shares.turns and self._share is PURCHASES:
            shares.turns.urgent += 1
        elif shares.turns and self._waits:
            shares.turns.wait()

    def __exit__(self, *error: object) -> None:
        borrowing_from.set(None)
        if shares.turns and self._share is PURCHASES:
            shares.turns.urgent -= 1
