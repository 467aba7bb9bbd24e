"""The stage leads to everything there is to show, and every page leads to it."""

from __future__ import annotations

import re

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import resolve, reverse

from lab.demo import stage as demo_stage
from lab.demo.data import LOGINS, create_logins

pytestmark = pytest.mark.django_db(transaction=True)

ELSEWHERE = {"locust": "http://127.0.0.1:8089", "provider": "http://127.0.0.1:8090"}
"""Scenes that other processes serve."""


@pytest.fixture(autouse=True)
def _addresses(settings, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    settings.LOCUST_URL, settings.PSP_URL = ELSEWHERE["locust"], ELSEWHERE["provider"]
    settings.ROOM_URL = "http://127.0.0.1:8091"
    monkeypatch.setattr(demo_stage, "SITE", tmp_path)


def links(text: str) -> dict[str, str]:
    """Return where each scene on the page leads to."""
    cards = re.findall(r'data-scene="(\w+)".*?</article>', text, re.DOTALL)
    found = re.findall(r'data-scene="(\w+)".*?<h3><a href="([^"]+)"', text, re.DOTALL)
    assert len(cards) == len(found)
    return dict(found)


def test_every_scene_is_there_with_its_picture(client: Client):
    found = links(client.get("/stage/").content.decode())
    assert found.items() >= ELSEWHERE.items()
    for picture, url in found.items():
        assert finders.find(f"lab/stage/{picture}.jpg"), picture
        assert picture in ELSEWHERE or resolve(url), url


def test_the_accounts_that_it_names_may_sign_in(client: Client):
    create_logins()
    text = client.get("/stage/").content.decode()
    for login in LOGINS:
        assert login.username in text
        assert login.password in text
        assert client.login(username=login.username, password=login.password)


def test_what_does_not_run_has_no_link_and_says_why(
    client: Client, settings, monkeypatch, tmp_path
):
    monkeypatch.setattr(demo_stage, "SITE", tmp_path / "not built")
    text = client.get("/stage/").content.decode()
    assert "<h3>Documentation</h3>" in text
    assert "make site" in text


@pytest.mark.parametrize("path", ["/", "/cart/", "/sign-in/", "/api/docs", "/locks/"])
def test_every_page_leads_to_the_stage(client: Client, path: str):
    assert f'href="{reverse("stage")}"' in client.get(path).content.decode()
