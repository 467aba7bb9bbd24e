"""The documentation's site, served under the shop's policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from lab.demo import site

BROKEN = "# A page\n\n[nowhere](no-such-page.md)\n"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "locks").mkdir()
    (tmp_path / "index.html").write_text("the start")
    (tmp_path / "locks" / "index.html").write_text("the course")
    monkeypatch.setattr(site, "SITE", tmp_path)
    return tmp_path


def content(path: str) -> str:
    answer = Client().get(path)
    assert answer.status_code == 200
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    return answer.getvalue().decode()


def test_folders_are_their_pages(built):
    assert content("/docs/site/") == "the start"
    assert content("/docs/site/locks/") == "the course"
    assert Client().get("/docs/site/locks").headers["Location"] == "/docs/site/locks/"


def test_what_is_not_in_the_site_is_not_served(built):
    (built.parent / "secret.txt").write_text("a secret")
    for path in ("no-such-page/", "../secret.txt", "%2e%2e/secret.txt"):
        assert Client().get(f"/docs/site/{path}").status_code == 404


def test_a_site_that_was_not_built_is_not_found(monkeypatch, tmp_path):
    monkeypatch.setattr(site, "SITE", tmp_path / "none")
    assert Client().get("/docs/site/").status_code == 404
