"""Password guessing is slowed down, on pages, in the admin and in the API."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from inventory.redis import client as redis
from shop.accounts import throttle

GOOD, BAD = "a long good passphrase", "a guess"


@pytest.fixture
def carol(db: None) -> Iterator[User]:
    server = redis()  # a test may turn the shop to another one
    yield User.objects.create_user("carol", password=GOOD, is_staff=True)
    server.delete(throttle._key("carol"))


def ask_token(client: Client, password: str, name: str = "carol") -> tuple[int, str]:
    answer = client.post(
        "/api/v1/tokens",
        {"username": name, "password": password},
        content_type="application/json",
    )
    return answer.status_code, answer.json().get("code", "")


def guess(client: Client) -> None:
    for _ in range(throttle.ATTEMPTS):
        ask_token(client, BAD)


def test_after_too_many_guesses_even_the_password_is_refused_everywhere(
    client: Client, carol: User
) -> None:
    assert ask_token(client, BAD) == (401, "wrong_credentials")
    guess(client)
    assert ask_token(client, GOOD) == (429, "login_throttled")
    credentials = {"username": "carol", "password": GOOD}
    page = client.post("/sign-in/", credentials)
    assert "Too many failed attempts" in page.content.decode()
    client.post("/admin/login/", credentials)
    assert "_auth_user_id" not in client.session


def test_the_name_is_the_same_in_any_case_and_others_are_not_affected(
    client: Client, carol: User
) -> None:
    User.objects.create_user("dave", password=GOOD)
    guess(client)
    assert ask_token(client, GOOD, "CAROL")[0] == 429
    assert ask_token(client, GOOD, "dave")[0] == 201


def test_a_sign_in_forgets_the_failures_before_it(client: Client, carol: User) -> None:
    for _ in range(2):
        for _ in range(throttle.ATTEMPTS - 1):
            ask_token(client, BAD)
        assert ask_token(client, GOOD)[0] == 201


def test_the_failures_are_forgotten_in_time(client: Client, carol: User) -> None:
    guess(client)
    assert 0 < redis().ttl(throttle._key("carol")) <= throttle.WINDOW
    redis().delete(throttle._key("carol"))  # as Redis does then
    assert ask_token(client, GOOD)[0] == 201


@pytest.mark.django_db(transaction=True)
def test_guesses_at_the_same_time_count_too(carol: User, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr(
        throttle.ModelBackend, "authenticate", lambda *arguments, **_: checked.append(arguments)
    )
    backend, request = throttle.ThrottledBackend(), RequestFactory().post("/")

    def attempt(_: int) -> None:
        try:
            backend.authenticate(request, "carol", BAD)
        except throttle.PermissionDenied:
            return

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(attempt, range(4 * throttle.ATTEMPTS)))
    assert len(checked) == throttle.ATTEMPTS


def test_without_redis_buyers_sign_in(client: Client, carol: User, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert ask_token(client, GOOD)[0] == 201
