"""The API's handler: what it must do although Django's own handler is not there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BytesIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import path

from inventory.hooks import hooks
from shop.api.handler import ApiHandler, Application
from shop.api.operations import Operation, Result
from shop.catalogue.models import Sale
from shop.conftest import Buyer
from shop.operating.checks import check_middleware


def call(handler: Application, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    """Call a WSGI application as a server does; returns status line, headers, content."""
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        **headers,
    }
    started: list[Any] = []
    answer: Iterable[bytes] = handler(environ, lambda *said: started.extend(said))
    content = b"".join(answer)
    if hasattr(answer, "close"):
        answer.close()
    return started[0], dict(started[1]), content


def purchase(handler: Application, buyer: Buyer, sale: Sale, **headers: str) -> Any:
    return call(
        handler,
        "POST",
        f"/api/v1/sales/{sale.pk}/orders",
        b'{"quantity": 1}',
        HTTP_AUTHORIZATION=f"Bearer {buyer.token}",
        HTTP_IDEMPOTENCY_KEY=str(uuid4()),
        **headers,
    )


@pytest.fixture
def handler() -> ApiHandler:
    """The application that gunicorn serves."""
    return ApiHandler(WSGIHandler())


def test_handler_sends_the_headers_of_every_page(
    handler: ApiHandler, ann: Buyer, sale: Sale, client: Client
) -> None:
    status, headers, content = purchase(handler, ann, sale)
    assert status == "201 Created"
    assert json.loads(content)["quantity"] == 1
    assert headers["Content-Length"] == str(len(content))
    page = client.get("/healthz").headers
    for name in ("X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy"):
        assert headers[name] == page[name]
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["Cache-Control"] == "no-store"


def test_handler_lets_caches_keep_only_a_sale(handler: ApiHandler, ann: Buyer, sale: Sale) -> None:
    order = ann.order(sale)
    kept = {}
    for what in (f"sales/{sale.pk}", f"orders/{order}", "sales/0"):
        sent = f"Bearer {ann.token}"
        status, headers, _ = call(handler, "GET", f"/api/v1/{what}", HTTP_AUTHORIZATION=sent)
        assert "Vary" not in headers  # it is the same for everyone, or kept by no cache
        kept[status[:3], what.partition("/")[0]] = headers["Cache-Control"]
    assert kept == {
        ("200", "sales"): "public, max-age=1",
        ("200", "orders"): "no-store",
        ("404", "sales"): "no-store",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothing",
        "/api/v1/sales/x",
        "/api/v1/sales/-1",
        "/api/v1/sales/1.5",
        f"/api/v1/sales/{'9' * 5000}",
        "/api/v1/sales/1/",
        "/api/v1/orders/\xc3\xa9/refund",
    ],
)
def test_handler_answers_an_unknown_path_with_a_problem(
    handler: ApiHandler, db: None, path: str
) -> None:
    status, headers, content = call(handler, "GET", path)
    assert status == "404 Not Found"
    assert headers["Content-Type"] == "application/problem+json"
    assert json.loads(content)["code"] == "not_found"


@pytest.mark.parametrize("host", ["evil.example", "", "127.0.0.1.evil.example", "a b", "x" * 5000])
@pytest.mark.parametrize("path", ["/api/v1/sales/1", "/api/v1/nothing"])
def test_handler_refuses_an_unknown_host(
    handler: ApiHandler, db: None, path: str, host: str
) -> None:
    for _ in range(2):
        status, headers, content = call(handler, "GET", path, HTTP_HOST=host)
        assert status == "400 Bad Request"
        assert headers["Content-Type"] == "application/problem+json"
        assert json.loads(content)["code"] == "unknown_host"


@pytest.mark.parametrize(
    ("host", "forwarded", "trusted", "served"),
    [
        *((host, None, False, True) for host in ("127.0.0.1", "127.0.0.1:8000", "LOCALHOST")),
        ("shop.example", None, False, True),
        ("inside", "shop.example", False, False),
        ("inside", "shop.example", True, True),
        ("shop.example", "evil.test", False, True),
        ("shop.example", "evil.test", True, False),
    ],
)
def test_handler_accepts_a_host_with_port_or_forwarded(
    settings: Any, db: None, host: str, forwarded: str | None, trusted: bool, served: bool
) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost", ".example"]
    settings.USE_X_FORWARDED_HOST = trusted
    hosts: dict[str, Any] = {"HTTP_HOST": host}
    if forwarded:
        hosts["HTTP_X_FORWARDED_HOST"] = forwarded
    status, _, _ = call(ApiHandler(WSGIHandler()), "GET", "/api/v1/orders/1", **hosts)
    assert status == ("401 Unauthorized" if served else "400 Bad Request")


def test_handler_redirects_http_where_only_https_is_served(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 3600
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    handler = ApiHandler(WSGIHandler())
    status, _, _ = call(handler, "POST", "/api/v1/tokens", HTTP_HOST="testserver")
    assert status == "301 Moved Permanently"
    status, headers, _ = call(handler, "POST", "/api/v1/tokens", HTTP_X_FORWARDED_PROTO="https")
    assert status.startswith("422 ")  # the phrase depends on the version of Python
    assert headers["Strict-Transport-Security"] == "max-age=3600"


@Operation(method="GET", tag="Sales", answers={})
def fails(request: HttpRequest) -> Result:
    """Query, then fail."""
    connection.ensure_connection()
    raise RuntimeError("a defect")


urlpatterns = [path("api/v1/fails", fails)]


@pytest.mark.django_db(transaction=True)
def test_handler_logs_a_failing_view_and_returns_its_connection(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ROOT_URLCONF = __name__
    handler = ApiHandler(WSGIHandler())
    status, _, content = call(handler, "GET", "/api/v1/fails")
    assert status == "500 Internal Server Error"
    assert json.loads(content)["code"] == "internal_error"
    assert "a defect" in caplog.text
    assert connections["default"].connection is None


@pytest.mark.django_db(transaction=True)
def test_handler_returns_the_connection_of_an_ended_greenlet(
    handler: ApiHandler, ann: Buyer, sale: Sale, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(name: str) -> None:
        connection.ensure_connection()
        raise SystemExit

    monkeypatch.setattr(hooks, "failpoint", end)
    with pytest.raises(SystemExit):
        purchase(handler, ann, sale)
    assert connections["default"].connection is None


SEEN: list[str] = []


class Note:
    """Middleware of a team: notes calls, refuses some, and adds a header and a cookie."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        SEEN.append(request.path)
        if "HTTP_X_BOT" in request.META:
            return HttpResponse("no bots", status=429)
        response: HttpResponseBase = self._get_response(request)
        response.headers["X-Noted"] = "yes"
        response.set_cookie("noted", "1")
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        SEEN.append(view.__name__)


def test_added_middleware_runs_for_api_and_pages_alike(
    settings: Any, ann: Buyer, sale: Sale
) -> None:
    settings.MIDDLEWARE = [f"{__name__}.Note", *settings.MIDDLEWARE]
    SEEN.clear()
    handler = ApiHandler(WSGIHandler())
    status, headers, content = purchase(handler, ann, sale)
    assert (status, json.loads(content)["quantity"]) == ("201 Created", 1)
    assert (headers["X-Noted"], headers["Cache-Control"]) == ("yes", "no-store")
    assert headers["Set-Cookie"].startswith("noted=1")
    assert headers["Content-Length"] == str(len(content))
    status, headers, content = purchase(handler, ann, sale, HTTP_X_BOT="1")
    assert (status, content) == ("429 Too Many Requests", b"no bots")
    assert headers["X-Content-Type-Options"] == "nosniff"
    call(handler, "GET", "/healthz")
    path = f"/api/v1/sales/{sale.pk}/orders"
    assert [path, "place_order", path, "/healthz", "live"] == SEEN


def test_added_middleware_is_named_by_the_check(settings: Any) -> None:
    assert not [*check_middleware()]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Note"]
    [found] = check_middleware()
    assert f"{__name__}.Note" in found.msg
