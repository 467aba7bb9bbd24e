"""Error reports: what happened, and nothing about the buyer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from shop.tests.processes import run_python

SECRETS = ("ann@example.org", "a-session", "a-token", "a-password", "a-search", "203.0.113.7")

FAILING_SHOP = """
from django.test import RequestFactory
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from shop.operating import error_reports
plain = error_reports.options
error_reports.options = lambda: plain() | {"_experiments": {"transport_compression_level": 0}}
from shop.wsgi import application
from shop import urls

@csrf_exempt
def fail(request, user, token):
    password = request.POST["password"]
    raise ValueError("the view has a bug")

urls.urlpatterns.insert(0, path("password-reset/<user>/<token>/", fail))
request = RequestFactory().post(
    "/password-reset/MQ/a-token/?q=a-search",
    {"email": "ann@example.org", "password": "a-password"},
    headers={"authorization": "Bearer a-token", "cookie": "sessionid=a-session"},
    HTTP_HOST="127.0.0.1",
    REMOTE_ADDR="203.0.113.7",
)
try:
    list(application(request.environ, lambda *_: None))
except ValueError:
    pass
"""


class Received(BaseHTTPRequestHandler):
    """Stands in for Sentry."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(body.decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def sentry() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Received) as server:
        server.received = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_an_error_is_reported_without_personal_data(sentry):
    given = {
        "DJANGO_SETTINGS_MODULE": "shop.tests.settings",
        "SENTRY_DSN": f"http://key@127.0.0.1:{sentry.server_port}/1",
    }
    run_python(FAILING_SHOP, **{**os.environ, **given})
    events = [text for text in sentry.received if '"exception"' in text]
    assert len(events) == 1
    event = json.loads(events[0].splitlines()[-1])
    assert event["exception"]["values"][0]["value"] == "the view has a bug"
    assert event["request"]["method"] == "POST"
    assert event["request"]["url"].endswith("/password-reset/{user}/{token}/")
    # The line that the traceback shows is source text; only values would be personal.
    assert [secret for secret in SECRETS if secret in events[0]] == []
