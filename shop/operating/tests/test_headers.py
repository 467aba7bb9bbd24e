"""Security headers of pages; those of calls are in `shop/api/tests/test_handler.py`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from shop import environment
from shop.operating import headers

TEMPLATES = [
    path
    for app in ("shop", "inventory")
    for path in (environment.PROJECT / app / "templates").rglob("*.html")
]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/sign-in/", "/nothing", "/admin/login/", "/healthz"])
def test_every_page_forbids_inline_scripts_and_frames(client: Client, path: str) -> None:
    sent = client.get(path).headers
    assert sent[headers.POLICY] == headers.PAGES
    assert "unsafe" not in sent[headers.POLICY]
    assert sent["X-Frame-Options"] == "DENY"
    assert sent["X-Content-Type-Options"] == "nosniff"
    assert sent["Permissions-Policy"].startswith("camera=()")


def test_only_styles_may_be_inline_and_only_where_a_library_writes_them(client: Client) -> None:
    policy = client.get("/api/docs").headers[headers.POLICY]
    assert policy == headers.API_DOCS
    assert "script-src" not in policy
    assert policy.count("unsafe-inline") == 1


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_an_inline_script_style_or_handler(path: Path) -> None:
    text = path.read_text()
    assert not re.findall(r"<script(?![^>]* src=)", text)
    assert not re.findall(r"\son\w+=", text)
    if path.parent.name != "mail":  # mail programs load no stylesheets
        assert not re.findall(r"\sstyle=|<style", text)
