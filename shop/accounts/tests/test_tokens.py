"""Bearer tokens: signed, expiring, and verified without a query."""

import time

import pytest

from shop.accounts import tokens


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


@pytest.mark.django_db
def test_verifying_asks_no_database(django_assert_num_queries):
    with django_assert_num_queries(0):
        tokens.verify(tokens.issue(42))
