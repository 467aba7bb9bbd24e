"""Names, passwords, sessions and resets: one normal form of a name, and guessing is slowed down."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.backends import ModelBackend
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test import Client, RequestFactory

from inventory.models import OutboxMessage
from shop.accounts import addresses, models, throttle, tokens
from shop.accounts.models import User
from shop.background import follow_up
from shop.redis import client as redis
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale, an_order
from shop.tests.openapi import refused

pytestmark = pytest.mark.django_db


SPELLINGS = (
    "strasse",
    "STRASSE",
    "straße",
    "STRAẞE",
    "Straſſe",
    "ｓｔｒａｓｓｅ",
    "ＳＴＲＡＳＳＥ",
    "𝓼𝓽𝓻𝓪𝓼𝓼𝓮",
    "ⓢⓣⓡⓐⓢⓢⓔ",
    "ﬆraſſe",
)
"""All are `strasse`."""


def test_marks_are_composed_and_distinguish_names() -> None:
    assert models.normal("ZOE\N{COMBINING DIAERESIS}") == models.normal("zoë") == "zoë"
    assert models.normal("zoe") != "zoë"


def characters() -> list[str]:
    """Return all assigned characters that PostgreSQL's text can hold."""
    every = map(chr, range(1, sys.maxunicode + 1))
    return [each for each in every if unicodedata.category(each) not in ("Cn", "Cs")]


def test_normal_form_of_a_name_is_stable() -> None:
    for character in characters():
        form = models.normal(character)
        assert models.normal(form) == form
        assert models.normal(unicodedata.normalize("NFKC", character)) == form


def test_normal_form_is_the_same_in_the_database() -> None:
    normal = sorted({models.normal(character) for character in characters()})
    other = [character for character in characters() if models.normal(character) != character]
    question = (
        "SELECT name FROM unnest(%s::text[]) AS name WHERE accounts_normal_username(name) {} name"
    )
    with connection.cursor() as cursor:
        cursor.execute(question.format("<>"), [normal])
        assert cursor.fetchall() == []
        cursor.execute(question.format("="), [other])
        assert cursor.fetchall() == []


@pytest.mark.parametrize("spelling", SPELLINGS[1:], ids=ascii)
def test_name_that_is_not_normal_is_refused_by_the_database(spelling: str) -> None:
    user = User.objects.create(username="strasse")
    for write in (
        lambda: User.objects.bulk_create([User(username=spelling)]),
        lambda: User.objects.filter(pk=user.pk).update(username=spelling),
    ):
        refused_by = "accounts_user_username_is_normal"
        with pytest.raises(IntegrityError, match=refused_by), transaction.atomic():
            write()


def test_users_and_superusers_get_the_normal_form_of_their_names(monkeypatch: Any) -> None:
    assert User.objects.create_user("STRAẞE").username == "strasse"
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", username="Größe", email="", interactive=False, verbosity=0)
    assert User.objects.get(is_superuser=True).username == "grösse"
    assert authenticate(username="GRÖSSE", password=PASSWORD) == User.objects.get(username="grösse")


@pytest.mark.parametrize("path", ["/sign-up/", "/admin/accounts/user/add/"])
def test_sign_up_refuses_another_spelling_of_a_name(path: str, admin_client: Client) -> None:
    client = admin_client if path.startswith("/admin/") else Client()
    User.objects.create_user("strasse", password=PASSWORD)
    for spelling in SPELLINGS:
        form = {"username": spelling, "password1": PASSWORD, "password2": PASSWORD}
        answer = client.post(path, {**form, "usable_password": "true"})
        assert "already exists" in answer.content.decode()
    answer = client.post(path, {**form, "username": "Öko", "usable_password": "true"})
    assert answer.status_code == 302
    assert User.objects.get(username="öko").check_password(PASSWORD)


@pytest.mark.parametrize("spelling", [*SPELLINGS, "Strasse"], ids=ascii)
def test_people_sign_in_with_any_spelling_of_their_name(spelling: str) -> None:
    user = User.objects.create_user("strasse", password=PASSWORD)
    credentials = {"username": spelling, "password": PASSWORD}
    page = Client()
    assert page.post("/sign-in/", credentials).status_code == 302
    assert page.session["_auth_user_id"] == str(user.pk)
    answer = Client().post("/api/v1/tokens", credentials, content_type="application/json")
    assert tokens.verify(answer.json()["token"]) == user.pk


GOOD, BAD, OWN = "a long good passphrase", "a guess", "the guesser's own passphrase"


@pytest.fixture
def jessica(db: None) -> Iterator[User]:
    server = redis()  # a test may turn the shop to another one
    yield User.objects.create_user("jessica", password=GOOD, is_staff=True)
    server.delete(throttle._key("jessica"))


def ask_token(client: Client, password: str, name: str = "jessica") -> tuple[int, str]:
    given = {"username": name, "password": password}
    answer = client.post("/api/v1/tokens", given, content_type="application/json")
    return answer.status_code, answer.json().get("code", "")


def guess(client: Client) -> None:
    for _ in range(throttle.ATTEMPTS):
        ask_token(client, BAD)


def test_sign_in_forgets_the_failures_before_it(client: Client, jessica: User) -> None:
    for _ in range(2):
        for _ in range(throttle.ATTEMPTS - 1):
            ask_token(client, BAD)
        assert ask_token(client, GOOD)[0] == 201


def test_sign_in_failures_are_forgotten_in_time(client: Client, jessica: User) -> None:
    guess(client)
    assert 0 < redis().ttl(throttle._key("jessica")) <= throttle.WINDOW
    redis().delete(throttle._key("jessica"))  # as Redis does then
    assert ask_token(client, GOOD)[0] == 201


@pytest.mark.django_db(transaction=True)
def test_guesses_at_the_same_time_count_too(jessica: User, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr(
        ModelBackend,
        "authenticate",
        lambda *arguments, **_: checked.append(arguments),
    )
    backend, request = throttle.ThrottledBackend(), RequestFactory().post("/")

    def attempt(_: int) -> None:
        try:
            backend.authenticate(request, "jessica", BAD)
        except throttle.PermissionDenied:  # type: ignore[attr-defined]
            return

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(attempt, range(4 * throttle.ATTEMPTS)))
    assert len(checked) == throttle.ATTEMPTS


def test_sign_in_works_without_redis(client: Client, jessica: User, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert ask_token(client, GOOD)[0] == 201


def test_token_without_the_database_is_asked_for_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError

    monkeypatch.setattr(ModelBackend, "authenticate", fail)
    assert ask_token(client, GOOD) == (503, "busy")  # nothing can have come of it


JESSICAS = ("jessica", "JESSICA", "jeßica", "JEẞICA", "ｊｅｓｓｉｃａ", "𝐉essica", "Jeſſica")
"""All are typed for `jessica`."""


def guess_by_token(name: str, password: str) -> bool:
    status, code = ask_token(Client(), password, name)
    return (status, code) == (429, "login_throttled")


def guess_by_page(name: str, password: str) -> bool:
    answer = Client().post("/sign-in/", {"username": name, "password": password})
    return b"Too many failed attempts" in answer.content


def guess_by_admin(name: str, password: str) -> bool:
    """Guess in the admin, which never says so; return whether it was throttled."""
    client = Client()
    client.post("/admin/login/", {"username": name, "password": password})
    return throttle.is_throttled(name) and "_auth_user_id" not in client.session


@pytest.mark.parametrize("guess_by", [guess_by_token, guess_by_page, guess_by_admin])
@pytest.mark.parametrize(
    "accomplice",
    ["jeßica", "ｊｅｓｓｉｃａ", "jessic\N{CYRILLIC SMALL LETTER A}", "mallory"],
    ids=ascii,
)
def test_sign_in_count_is_not_reset_by_another_account(
    guess_by: Callable[[str, str], bool], accomplice: str, jessica: User
) -> None:
    """The guesser tries to sign up with a similar name, and signs in with it after each guess."""
    form = {"username": accomplice, "password1": OWN, "password2": OWN}
    Client().post("/sign-up/", form)
    throttled = []
    for number in range(throttle.ATTEMPTS + len(JESSICAS)):
        throttled.append(guess_by(JESSICAS[number % len(JESSICAS)], BAD))
        guess_by(accomplice, OWN)
    assert throttled.index(True) <= throttle.ATTEMPTS
    assert all(throttled[throttle.ATTEMPTS :])
    assert guess_by("jessica", GOOD)


WRONG, NONE = (401, "wrong_credentials"), (422, "invalid_request")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"username": "jessica", "password": "wrong"}, WRONG),
        ({"username": "nobody", "password": GOOD}, WRONG),
        ({"username": "closed", "password": GOOD}, WRONG),
        ({"username": "jessica' OR 1=1 --", "password": "x"}, WRONG),
        ({}, NONE),
        ({"username": "jessica"}, NONE),
        ({"password": GOOD}, NONE),
        ({"username": 1, "password": "x"}, NONE),
        ({"username": ["jessica"], "password": "x"}, NONE),
        ({"username": None, "password": None}, NONE),
        ({"username": "", "password": "x"}, NONE),
        ({"username": "jess\0ica", "password": "x"}, NONE),
        ({"username": "jessica", "password": "x\0"}, NONE),
        ({"username": "x" * 1001, "password": "x"}, NONE),
        ({"username": "jessica", "password": "half a character: \udfff"}, (400, "malformed")),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_wrong_credentials_get_no_token(given, answer, ann, jessica):
    User.objects.create_user("closed", password=GOOD, is_active=False)
    refused(ann.call("POST", "tokens", given), *answer)


def test_signing_in_or_up_leads_nowhere_else(client):
    buyer = a_buyer(PASSWORD)
    form = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post("/sign-up/?next=//evil.example/", form).headers["Location"] == "/"
    login = {"username": buyer.username, "password": PASSWORD}
    away = Client().post("/sign-in/?next=https://evil.example/", login)
    assert away.headers["Location"] == "/"


def test_my_orders_are_mine_the_newest_first_twenty_a_page(browser, buyer):
    sale = a_sale(stock=30, limit=25)
    mine = [an_order(sale, buyer).pk for _ in range(21)]
    other = an_order(sale)
    first, second = (browser.get(f"/orders/?page={n}").text for n in (1, 2))
    shown = re.compile(r'<th scope="row"><a href="/orders/(\d+)/">')
    assert [int(pk) for pk in shown.findall(first)] == mine[:0:-1]
    assert [int(pk) for pk in shown.findall(second)] == mine[:1]
    assert f"/orders/{other.pk}/" not in first + second


ADDRESS = "eve@example.org"


@pytest.fixture
def eve() -> User:
    return User.objects.create_user("eve", ADDRESS, PASSWORD)


def ask(address: str = ADDRESS) -> str:
    """Ask for a mail; return the page that answers."""
    answer = Client().post("/password-reset/", {"email": address}, follow=True)
    assert answer.redirect_chain == [("/password-reset/sent/", 302)]
    return answer.text


def test_password_reset_does_not_reveal_a_known_address(eve, mailoutbox):
    known = {re.sub(r'value="\w+"', "", ask()) for _ in range(addresses.MAX_REQUESTED + 2)}
    unknown = re.sub(r'value="\w+"', "", ask("nobody@example.org"))
    assert known == {unknown}
    assert OutboxMessage.objects.count() == addresses.MAX_REQUESTED
    assert {str(message.payload) for message in OutboxMessage.objects.all()} == {
        f"{{'users': [{eve.pk}]}}"
    }
    follow_up.follow_up()
    assert len(mailoutbox) == addresses.MAX_REQUESTED


@pytest.mark.parametrize("change", [{"is_active": False}, {"email": ""}])
def test_password_reset_sends_no_mail_to_a_closed_account(eve, mailoutbox, change):
    ask()
    User.objects.filter(pk=eve.pk).update(**change)
    follow_up.follow_up()
    assert mailoutbox == []
    assert OutboxMessage.objects.get().done is not None


def test_signing_in_changes_the_sessions_key_and_keeps_its_cart(eve):
    sale, browser = a_sale(), Client()
    browser.post(f"/cart/{sale.pk}/", {"quantity": 1})
    cart, before = dict(browser.session.items()), browser.session.session_key
    assert cart
    browser.post("/sign-in/", {"username": "eve", "password": PASSWORD})
    assert browser.session.session_key != before
    assert cart.items() <= dict(browser.session.items()).items()


def test_sign_out_ends_the_session_for_copies_of_its_cookie(eve):
    browser, copy = Client(), Client()
    browser.post("/sign-in/", {"username": "eve", "password": PASSWORD})
    copy.cookies["sessionid"] = browser.cookies["sessionid"].value
    assert browser.get("/sign-out/").status_code == 405, "a link must not do it"
    assert copy.get("/orders/").status_code == 200
    assert browser.post("/sign-out/").headers["Location"] == "/"
    assert copy.get("/orders/").status_code == 302


def test_load_test_accounts_have_tokens_until_deactivated() -> None:
    printed = StringIO()
    call_command("load_test_accounts", "--count=3", stdout=printed)
    buyers = [tokens.verify(token) for token in printed.getvalue().split()]
    made = User.objects.filter(pk__in=buyers)
    assert made.count() == 3
    assert not any(user.has_usable_password() or user.email for user in made)
    other = a_buyer()
    call_command("load_test_accounts", "--deactivate", stdout=printed)
    assert not made.filter(is_active=True).exists()
    assert User.objects.get(pk=other.pk).is_active
