"""Password guessing is slowed down, on pages, in the admin and in the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.test import Client, RequestFactory

from inventory.redis import client as redis
from shop.accounts import throttle
from shop.accounts.models import User

GOOD, BAD, OWN = "a long good passphrase", "a guess", "the guesser's own passphrase"


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
        ModelBackend,
        "authenticate",
        lambda *arguments, **_: checked.append(arguments),
    )
    backend, request = throttle.ThrottledBackend(), RequestFactory().post("/")

    def attempt(_: int) -> None:
        try:
            backend.authenticate(request, "carol", BAD)
        except throttle.PermissionDenied:  # type: ignore[attr-defined]
            return

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(attempt, range(4 * throttle.ATTEMPTS)))
    assert len(checked) == throttle.ATTEMPTS


def test_without_redis_buyers_sign_in(client: Client, carol: User, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert ask_token(client, GOOD)[0] == 201


SPELLINGS = ("jessica", "JESSICA", "jeßica", "JEẞICA", "ｊｅｓｓｉｃａ", "𝐉essica", "Jeſſica")
"""All are typed for `jessica`."""


def guess_by_token(name: str, password: str) -> bool:
    """Guess through the API; return whether it was throttled."""
    status, code = ask_token(Client(), password, name)
    return (status, code) == (429, "login_throttled")


def guess_by_page(name: str, password: str) -> bool:
    """Guess on the page; return whether it was throttled."""
    answer = Client().post("/sign-in/", {"username": name, "password": password})
    return b"Too many failed attempts" in answer.content


def guess_by_admin(name: str, password: str) -> bool:
    """Guess in the admin, which never says so; return whether it was throttled."""
    client = Client()
    client.post("/admin/login/", {"username": name, "password": password})
    return throttle.is_throttled(name) and "_auth_user_id" not in client.session


@pytest.fixture
def jessica(db: None) -> Iterator[User]:
    yield User.objects.create_user("jessica", password=GOOD, is_staff=True)
    redis().delete(throttle._key("jessica"))


@pytest.mark.parametrize("guess_by", [guess_by_token, guess_by_page, guess_by_admin])
@pytest.mark.parametrize(
    "accomplice",
    ["jeßica", "ｊｅｓｓｉｃａ", "jessic\N{CYRILLIC SMALL LETTER A}", "mallory"],
    ids=ascii,
)
def test_no_other_account_or_spelling_resets_the_count_of_a_name(
    guess_by: Callable[[str, str], bool], accomplice: str, jessica: User
) -> None:
    """The guesser tries to sign up with a similar name, and signs in with it after each guess."""
    form = {"username": accomplice, "password1": OWN, "password2": OWN}
    Client().post("/sign-up/", form)
    throttled = []
    for number in range(40):
        throttled.append(guess_by(SPELLINGS[number % len(SPELLINGS)], BAD))
        guess_by(accomplice, OWN)
    assert throttled.index(True) <= throttle.ATTEMPTS
    assert all(throttled[throttle.ATTEMPTS :])
    assert guess_by("jessica", GOOD)
