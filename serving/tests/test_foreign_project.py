"""Another Django project uses the lane, with the settings that `serving/README.md` shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from serving.tests.projects import ROOT, answer, served

PROJECT = """
import sys

import psycopg
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

OURS = ("shop", "inventory", "locking", "lab", "loadtest", "course")

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["serving.bodies.whole_bodies"],
)


def show(request):
    return JsonResponse({
        "path": request.path,
        "body": type(request.META["wsgi.input"]).__name__,
        "ours": [name for name in OURS if name in sys.modules],
        "psycopg": [psycopg.waiting.wait.__module__, psycopg.connection.Lock.__module__],
    })


urlpatterns = [path("", show), path("api/seats", show)]
application = get_wsgi_application()
"""

README = (ROOT / "serving" / "README.md").read_text(encoding="utf-8")
[CONFIG] = re.findall(r"```python\n(# gunicorn\.conf\.py\n.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The project's folder."""
    (tmp_path / "project.py").write_text(PROJECT)
    (tmp_path / "gunicorn.conf.py").write_text(CONFIG)
    return tmp_path


def show(port: int, path: str) -> dict[str, Any]:
    """Return what the project's view saw of a request."""
    seen: dict[str, Any] = json.loads(answer(port, path))
    assert seen["path"] == path
    assert seen["ours"] == []
    return seen


def test_its_calls_take_the_lane_and_its_pages_go_through_gunicorn(folder: Path) -> None:
    with served(folder) as (port, _):
        assert show(port, "/api/seats")["body"] == "BytesIO"  # of `serving.calls.Call`
        assert show(port, "/")["body"] == "Body"  # of gunicorn's parser
        # Its locks block a greenlet only, since it was loaded after gevent's patches.
        assert show(port, "/")["psycopg"] == ["serving.psycopg_wait", "gevent.thread"]


def test_without_a_prefix_gunicorn_reads_all(folder: Path) -> None:
    (folder / "gunicorn.conf.py").write_text(CONFIG.replace('"/api/"', '""'))
    with served(folder) as (port, _):
        assert show(port, "/api/seats")["body"] == "Body"
