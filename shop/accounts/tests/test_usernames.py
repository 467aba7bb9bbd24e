"""One normal form for user names: in Python, in the database, and wherever a name is typed."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client

from shop.accounts import models
from shop.accounts.models import User
from shop.tests.catalogue import PASSWORD

SPELLINGS = (
    *("strasse", "STRASSE", "straße", "STRAẞE", "Straſſe"),
    *("ｓｔｒａｓｓｅ", "ＳＴＲＡＳＳＥ", "𝓼𝓽𝓻𝓪𝓼𝓼𝓮", "ⓢⓣⓡⓐⓢⓢⓔ", "ﬆraſſe"),
)
"""All are `strasse`."""

COMPOSED, DECOMPOSED = "zoë", "ZOE\N{COMBINING DIAERESIS}"


@pytest.mark.parametrize("spelling", SPELLINGS, ids=ascii)
def test_every_spelling_has_the_same_normal_form(spelling: str) -> None:
    assert models.normal(spelling) == "strasse"


def test_marks_are_composed_and_distinguish_names() -> None:
    assert models.normal(DECOMPOSED) == models.normal(COMPOSED) == COMPOSED
    assert models.normal("zoe") != COMPOSED


def characters() -> list[str]:
    """Return all assigned characters that PostgreSQL's text can hold."""
    every = map(chr, range(1, sys.maxunicode + 1))
    return [each for each in every if unicodedata.category(each) not in ("Cn", "Cs")]


def test_a_normal_form_is_its_own_and_that_of_what_djangos_forms_make_of_a_name() -> None:
    for each in characters():
        form = models.normal(each)
        assert models.normal(form) == form
        assert models.normal(unicodedata.normalize("NFKC", each)) == form


@pytest.mark.django_db
def test_the_database_has_the_same_normal_form_for_every_character() -> None:
    normal = sorted({models.normal(each) for each in characters()})
    other = [each for each in characters() if models.normal(each) != each]
    question = (
        "SELECT name FROM unnest(%s::text[]) AS name WHERE accounts_normal_username(name) {} name"
    )
    with connection.cursor() as cursor:
        cursor.execute(question.format("<>"), [normal])
        assert cursor.fetchall() == []
        cursor.execute(question.format("="), [other])
        assert cursor.fetchall() == []


@pytest.mark.django_db
@pytest.mark.parametrize("spelling", SPELLINGS[1:], ids=ascii)
def test_the_database_refuses_a_name_that_is_not_normal(spelling: str) -> None:
    with (
        pytest.raises(IntegrityError, match="accounts_user_username_is_normal"),
        transaction.atomic(),
    ):
        User.objects.bulk_create([User(username=spelling)])
    user = User.objects.create(username="strasse")
    with (
        pytest.raises(IntegrityError, match="accounts_user_username_is_normal"),
        transaction.atomic(),
    ):
        User.objects.filter(pk=user.pk).update(username=spelling)


@pytest.mark.django_db
def test_users_and_superusers_get_the_normal_form_of_their_names(monkeypatch: Any) -> None:
    assert User.objects.create_user("STRAẞE").username == "strasse"
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", username="Größe", email="", interactive=False, verbosity=0)
    assert User.objects.get(is_superuser=True).username == "grösse"
    assert authenticate(username="GRÖSSE", password=PASSWORD) == User.objects.get(username="grösse")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-up/", "/admin/accounts/user/add/"])
def test_another_spelling_of_a_name_cannot_be_signed_up(path: str, admin_client: Client) -> None:
    client = admin_client if path.startswith("/admin/") else Client()
    User.objects.create_user("strasse", password=PASSWORD)
    for spelling in SPELLINGS:
        form = {"username": spelling, "password1": PASSWORD, "password2": PASSWORD}
        answer = client.post(path, {**form, "usable_password": "true"})
        assert "already exists" in answer.content.decode()
    answer = client.post(path, {**form, "username": "Öko", "usable_password": "true"})
    assert answer.status_code == 302
    assert User.objects.get(username="öko").check_password(PASSWORD)


@pytest.mark.django_db
@pytest.mark.parametrize("spelling", [*SPELLINGS, "Strasse"], ids=ascii)
def test_people_sign_in_with_any_spelling_of_their_name(spelling: str) -> None:
    user = User.objects.create_user("strasse", password=PASSWORD)
    credentials = {"username": spelling, "password": PASSWORD}
    page = Client()
    assert page.post("/sign-in/", credentials).status_code == 302
    assert page.session["_auth_user_id"] == str(user.pk)
    token = Client().post("/api/v1/tokens", credentials, content_type="application/json")
    assert token.status_code == 201
