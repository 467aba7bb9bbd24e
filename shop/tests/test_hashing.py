"""Passwords are hashed at the process's desk, whoever asks, and a full desk is a polite 503."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.tokens import default_token_generator
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.test import Client
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from shop import settings as production
from shop.accounts import hashing, throttle
from shop.accounts.models import User
from shop.api.handler import ApiHandler
from shop.operating import clients

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "long enough 1x"


class Full(Exception):
    pass


class Desk:
    """A desk that does all work at once, or none."""

    def __init__(self) -> None:
        self.clients: list[str] = []
        self.full = False

    def run(self, client: str, work: Callable[[], Any]) -> Any:
        self.clients.append(client)
        if self.full:
            raise Full
        return work()


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Desk:
    """The desk, with production's hashers."""
    found = Desk()
    settings.PASSWORD_HASHERS = production.PASSWORD_HASHERS
    monkeypatch.setattr(hashing.Pbkdf2, "iterations", 1000)
    monkeypatch.setattr(hashing, "desk", found)
    monkeypatch.setattr(hashing, "full", Full)
    return found


def a_user(desk: Desk, **more: Any) -> User:
    user = User.objects.create_user("ann", "ann@example.com", PASSWORD, **more)
    desk.clients.clear()
    return user


def get_token(name: str, password: str) -> HttpResponse:
    body = {"username": name, "password": password}
    return Client().post("/api/v1/tokens", body, content_type="application/json")  # type: ignore[return-value]


def reset(user: User) -> HttpResponse:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    client = Client()
    page = client.get(f"/password-reset/{uid}/{token}/", follow=True)
    new = {"new_password1": PASSWORD + "y", "new_password2": PASSWORD + "y"}
    return client.post(page.redirect_chain[-1][0], new)  # type: ignore[return-value]


def change_in_admin(user: User) -> HttpResponse:
    client = Client()
    client.force_login(user)
    new = {"old_password": PASSWORD, "new_password1": PASSWORD + "y"}
    new["new_password2"] = new["new_password1"]
    return client.post("/admin/password_change/", new)  # type: ignore[return-value]


SIGN_UP = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}

WAYS: dict[str, Callable[[User], Any]] = {
    "a token": lambda _: get_token("ann", PASSWORD),
    "a token, wrong password": lambda _: get_token("ann", "x"),
    "a token, unknown name": lambda _: get_token("nobody", "x"),
    "signing in": lambda _: Client().post("/sign-in/", {"username": "ann", "password": PASSWORD}),
    "the admin": lambda _: Client().post("/admin/login/", {"username": "nobody", "password": "x"}),
    "signing up": lambda _: Client().post("/sign-up/", SIGN_UP),
    "a reset": reset,
    "a change": change_in_admin,
}


@pytest.mark.parametrize("way", WAYS)
def test_password_is_hashed_at_the_desk(way: str, desk: Desk) -> None:
    answer = WAYS[way](a_user(desk, is_staff=True))
    assert answer.status_code in {200, 201, 302, 401}
    assert desk.clients


@pytest.mark.parametrize("way", WAYS)
def test_full_desk_is_answered_503(way: str, desk: Desk) -> None:
    user = a_user(desk, is_staff=True)
    desk.full = True
    answer = WAYS[way](user)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")


def test_refused_attempt_is_not_counted(desk: Desk) -> None:
    a_user(desk)
    desk.full = True
    for _ in range(throttle.ATTEMPTS + 1):
        assert get_token("ann", PASSWORD).status_code == 503
    desk.full = False
    assert get_token("ann", PASSWORD).status_code == 201


@pytest.mark.parametrize("hasher", ["pbkdf2_sha256", "pbkdf2_sha1", "scrypt"])
def test_hashing_queue_serves_other_hashers_too(hasher: str, desk: Desk) -> None:
    make_password("x", hasher=hasher)
    assert desk.clients == [""]


@pytest.mark.parametrize(
    ("trusted", "forwarded", "client"),
    [
        (0, "7.7.7.7", "127.0.0.1"),
        (1, "6.6.6.6, 7.7.7.7", "7.7.7.7"),
        (2, "5.5.5.5, 6.6.6.6, 7.7.7.7", "6.6.6.6"),
        (2, "7.7.7.7", "7.7.7.7"),
        (1, "", "127.0.0.1"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (1, "unknown", "unknown"),
    ],
)
def test_client_is_found_behind_proxies(
    trusted: int, forwarded: str, client: str, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = trusted
    environ = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": forwarded}
    assert clients.address(environ) == client


@pytest.mark.parametrize(
    ("serves", "path", "status"),
    [
        ("api", "/", 404),
        ("api", "/admin/login/", 404),
        ("api", "/api/docs", 404),
        ("api", "/api/v1/openapi.json", 404),
        ("api", "/api/v1/sales/1", 404),
        ("api", "/healthz", 200),
        ("pages", "/healthz", 200),
        ("pages", "/sign-in/", 200),
        ("pages", "/api/v1/openapi.json", 200),
        ("pages", "/api/v1/sales/1", 404),
    ],
)
def test_process_serves_what_it_is_for(serves: str, path: str, status: int, settings: Any) -> None:
    settings.SHOP_SERVES = serves
    statuses, environ = [], Client()._base_environ(PATH_INFO=path)  # type: ignore[attr-defined]
    answer = ApiHandler(WSGIHandler())(environ, lambda said, _, *__: statuses.append(said))
    assert [int(said.split()[0]) for said in statuses] == [status]
    refused = b"SHOP_SERVES" in b"".join(answer)
    assert refused == (status == 404 and (serves == "api") != path.startswith("/api/v1/sales"))
