"""Bearer tokens: signed, expiring, and verified without a query."""

import time

import pytest

from shop.accounts import tokens

pytestmark = pytest.mark.django_db


def test_a_token_names_its_buyer():
    assert tokens.verify(tokens.issue(42)) == 42


def test_a_token_ends(monkeypatch):
    token = tokens.issue(42, lifetime=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 59)
    assert tokens.verify(token) == 42
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(tokens.BadToken, match="expired"):
        tokens.verify(token)


@pytest.mark.parametrize("place", [0, 1, 2, -1])
def test_a_token_with_one_changed_character_is_refused(place):
    token = tokens.issue(1234)
    changed = list(token)
    changed[place] = "1" if changed[place] != "1" else "2"
    with pytest.raises(tokens.BadToken, match="not a token"):
        tokens.verify("".join(changed))


def test_a_token_of_another_secret_is_refused(settings):
    token = tokens.issue(42)
    settings.SECRET_KEY = "another"
    tokens._signer.cache_clear()
    tokens._read.cache_clear()
    try:
        with pytest.raises(tokens.BadToken):
            tokens.verify(token)
    finally:
        tokens._signer.cache_clear()
        tokens._read.cache_clear()


def test_verifying_asks_no_database(django_assert_num_queries):
    tokens.verify(tokens.issue(42))  # which may read what was revoked
    with django_assert_num_queries(0):
        tokens.verify(tokens.issue(43))


def test_a_token_from_before_generations_is_of_the_first_one():
    assert tokens._read(tokens.issue(42))[2] == 0
    assert tokens._read(tokens.issue(42, generation=3))[2] == 3
