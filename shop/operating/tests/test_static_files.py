"""The pages' static files in production, with `collectstatic` and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shop.operating.static_files import StaticFiles
from shop.tests.processes import run_python
from shop.tests.test_environment import PRODUCTION

ASK = """
import django
django.setup()
from django.test import Client
client = Client(HTTP_HOST="shop.example")
page = client.get("/api/docs", secure=True)
icon = page.text.partition('rel="icon" href="')[2].partition('"')[0]
print(page.status_code, client.get(icon, secure=True).status_code)
"""


def test_production_serves_its_pages_and_their_files_from_a_checkout() -> None:
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
