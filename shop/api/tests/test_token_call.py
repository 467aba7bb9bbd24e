"""A name and a password are exchanged for a token."""

from __future__ import annotations

import pytest

from shop.accounts import tokens
from shop.api.tests.answers import refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def password(ann) -> str:
    """Ann's."""
    ann.user.set_password("ann's password")
    ann.user.save()
    return "ann's password"


def test_a_name_and_password_are_exchanged_for_a_token(ann, password):
    credentials = {"username": "ann", "password": password}
    answer = ann.call("POST", "tokens", credentials, authorization="")
    assert answer.status_code == 201
    assert tokens.verify(answer.json()["token"]) == ann.user.pk


@pytest.mark.parametrize(
    "credentials",
    [
        {"username": "ann", "password": "wrong"},
        {"username": "nobody", "password": "ann's password"},
        {"username": "ann' OR 1=1 --", "password": "x"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("password")
def test_wrong_credentials_get_no_token(credentials, ann):
    refused(ann.call("POST", "tokens", credentials), 401, "wrong_credentials")


@pytest.mark.parametrize(
    "credentials",
    [
        {},
        {"username": "ann"},
        {"password": "x"},
        {"username": 1, "password": "x"},
        {"username": ["ann"], "password": "x"},
        {"username": None, "password": None},
        {"username": "", "password": "x"},
        {"username": "a\0nn", "password": "x"},
        {"username": "ann", "password": "x\0"},
        {"username": "x" * 1001, "password": "x"},
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_credentials_that_are_none_are_refused(credentials, ann):
    refused(ann.call("POST", "tokens", credentials), 422, "invalid_request")


@pytest.mark.parametrize("half", ["\ud800", "half a character: \udfff"], ids=ascii)
def test_half_a_character_is_no_text(half, ann):
    credentials = {"username": "ann", "password": half}
    refused(ann.call("POST", "tokens", credentials), 400, "malformed")


def test_an_inactive_user_gets_no_token(ann, password):
    ann.user.is_active = False
    ann.user.save()
    credentials = {"username": "ann", "password": password}
    refused(ann.call("POST", "tokens", credentials), 401, "wrong_credentials")


def test_the_shop_itself_has_no_synthetic_buyers(client, settings):
    settings.ROOT_URLCONF = "shop.urls"
    refused(client.post("/api/v1/demo/buyers"), 404, "not_found")
