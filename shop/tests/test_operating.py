"""Health, security headers, static files and error reports."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from inventory.tests.helpers import pool_of_16, read_only_database
from shop import environment
from shop.operating import headers, health
from shop.operating.static_files import StaticFiles
from shop.tests.processes import run_python, wait_for
from shop.tests.test_settings import PRODUCTION


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(health, "MAX_SECONDS", 60.0)  # a busy machine is no outage
    health._last.clear()
    yield
    health._last.clear()


def fail() -> None:
    raise ConnectionError


def break_server(monkeypatch: pytest.MonkeyPatch, name: str, how: Callable[[], Any]) -> None:
    monkeypatch.setattr(health, "SERVERS", {**health.SERVERS, name: how})


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
def test_livez_asks_no_server(path: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in health.SERVERS:
        break_server(monkeypatch, name, fail)
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("server", "status", "word"),
    [("database", 503, "unready"), ("redis", 200, "degraded"), ("broker", 200, "degraded")],
)
def test_readyz_fails_only_without_the_database(
    server: str, status: int, word: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_server(monkeypatch, server, fail)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (status, word)
    assert answer.json()["servers"][server] == "ConnectionError"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("sessions", "error"), [("read-write", "OperationalError"), ("any", "ReadOnlyDatabase")]
)
def test_readiness_ends_with_a_read_only_database(
    sessions: str, error: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "target_session_attrs", sessions)
    with pool_of_16(monkeypatch) as database:
        database.settings_dict["OPTIONS"]["pool"]["timeout"] = 0.5
        with read_only_database():
            answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "unready")
        assert answer.json()["servers"]["database"] == error


@pytest.mark.django_db(transaction=True)
def test_health_asks_a_hanging_server_once_without_waiting(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs until all answers are there, so none of them can have waited for it."""
    asked, ended = [], []
    continues = threading.Event()

    def hang() -> None:
        asked.append(1)
        assert continues.wait(300)
        ended.append(1)

    monkeypatch.setattr(health, "MAX_SECONDS", 0.2)
    monkeypatch.setattr(health, "MAX_AGE", 0.0)
    break_server(monkeypatch, "database", hang)
    for _ in range(3):
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "unready")
    assert (asked, ended) == ([1], [])
    continues.set()
    wait_for(lambda: "database" not in health._under_way)  # its thread is at its end
    assert (asked, ended) == ([1], [1])


@pytest.mark.django_db(transaction=True)
def test_health_answer_is_repeated_for_a_second(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    break_server(monkeypatch, "redis", lambda: asked.append(1))
    assert client.get("/readyz").json() == client.get("/readyz").json()
    assert len(asked) == 1


TEMPLATES = [
    path
    for app in ("shop", "inventory")
    for path in (environment.PROJECT / app / "templates").rglob("*.html")
]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/sign-in/", "/nothing", "/admin/login/", "/healthz"])
def test_pages_forbid_inline_scripts_and_frames(client: Client, path: str) -> None:
    sent = client.get(path).headers
    assert sent[headers.POLICY] == headers.PAGES
    assert "unsafe" not in sent[headers.POLICY]
    assert sent["X-Frame-Options"] == "DENY"
    assert sent["X-Content-Type-Options"] == "nosniff"
    assert sent["Permissions-Policy"].startswith("camera=()")


def test_pages_allow_inline_styles_only_for_a_library(client: Client) -> None:
    policy = client.get("/api/docs").headers[headers.POLICY]
    assert policy == headers.API_DOCS
    assert "script-src" not in policy
    assert policy.count("unsafe-inline") == 1


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_inline_script_style_or_handler(path: Path) -> None:
    text = path.read_text()
    assert not re.findall(r"<script(?![^>]* src=)", text)
    assert not re.findall(r"\son\w+=", text)
    if path.parent.name != "mail":  # mail programs load no stylesheets
        assert not re.findall(r"\sstyle=|<style", text)


FIRST_REQUEST = """
import sys
from django.test import RequestFactory
from shop.wsgi import application
loaded = set(sys.modules)
request = RequestFactory().get("/livez", HTTP_HOST="127.0.0.1")
list(application(request.environ, lambda *_: None))
import shop.background.tasks
print(*(name for name in sys.modules.keys() - loaded if name.startswith(("shop.", "celery."))))
"""


@pytest.mark.long
def test_web_process_imports_nothing_once_it_serves() -> None:
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "shop.tests.settings"}
    done = run_python(FIRST_REQUEST, **variables)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


ASK = """
import django
django.setup()
from django.test import Client
client = Client(HTTP_HOST="shop.example")
page = client.get("/api/docs", secure=True)
icon = page.text.partition('rel="icon" href="')[2].partition('"')[0]
print(page.status_code, client.get(icon, secure=True).status_code)
"""


@pytest.mark.long
def test_production_serves_pages_and_files_from_a_checkout() -> None:
    variables = {**PRODUCTION, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    done = run_python(ASK, **variables)
    assert done.stdout.split() == ["200", "200"], done.stderr


def test_collected_files_have_their_hashes_in_their_names(tmp_path: Path) -> None:
    assert StaticFiles(location=tmp_path).url("a.css") == "/static/a.css"
    collected = {"paths": {"a.css": "a.1234.css"}, "version": "1.1", "hash": ""}
    (tmp_path / "staticfiles.json").write_text(json.dumps(collected))
    storage = StaticFiles(location=tmp_path)
    assert storage.url("a.css") == "/static/a.1234.css"
    with pytest.raises(ValueError, match="Missing staticfiles manifest entry"):
        storage.url("b.css")


SECRETS = ("ann@example.org", "a-session", "a-token", "a-password", "a-search", "203.0.113.7")

PERSONAL = {
    "path": "/password-reset/MQ/a-token/?q=a-search",
    "data": {"email": "ann@example.org", "password": "a-password"},
    "headers": {"authorization": "Bearer a-token", "cookie": "sessionid=a-session"},
    "REMOTE_ADDR": "203.0.113.7",
}

FAILING_SHOP = """
import json
import os
from django.test import RequestFactory
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from shop.operating import telemetry
plain = telemetry.error_options
telemetry.error_options = lambda: plain() | {"_experiments": {"transport_compression_level": 0}}
from shop.wsgi import application
from shop import urls

@csrf_exempt
def fail(request, user, token):
    password = request.POST["password"]
    raise ValueError("the view has a bug")

urls.urlpatterns.insert(0, path("password-reset/<user>/<token>/", fail))
request = RequestFactory().post(**json.loads(os.environ["PERSONAL"]), HTTP_HOST="127.0.0.1")
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


@pytest.mark.long
def test_error_is_reported_without_personal_data(sentry):
    given = {
        "DJANGO_SETTINGS_MODULE": "shop.tests.settings",
        "SENTRY_DSN": f"http://key@127.0.0.1:{sentry.server_port}/1",
        # Not in the source text, which a traceback shows.
        "PERSONAL": json.dumps(PERSONAL),
    }
    run_python(FAILING_SHOP, **{**os.environ, **given})
    events = [text for text in sentry.received if '"exception"' in text]
    assert len(events) == 1
    event = json.loads(events[0].splitlines()[-1])
    assert event["exception"]["values"][0]["value"] == "the view has a bug"
    assert event["request"]["method"] == "POST"
    assert event["request"]["url"].endswith("/password-reset/{user}/{token}/")
    assert [secret for secret in SECRETS if secret in events[0]] == []
