"""Tokens end with their time, with the account, and with its password."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from inventory.tests.helpers import on_this_thread
from shop.accounts import tokens
from shop.accounts.models import User
from shop.accounts.tokens import REFRESH, TOO_OLD, Generations, Unreadable
from shop.conftest import Buyer
from shop.tests.catalogue import PASSWORD
from shop.tests.openapi import refused
from shop.tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def test_token_of_another_secret_is_refused(settings):
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


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def delete(user: User) -> None:
    user.delete()


def change_password(user: User) -> None:
    user.set_password(PASSWORD)
    user.save()


class Clock:
    """The clock of `tokens`, which only a test moves."""

    now = 1000.0

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(tokens, "time", clock)
    tokens.generations.cache_clear()
    yield clock
    tokens.generations.cache_clear()


@pytest.mark.parametrize("end", [deactivate, delete, change_password])
def test_token_is_refused_within_a_minute_of_its_accounts_end(
    end: Callable[[User], None], ann: Buyer, bob: Buyer, sale: Any, clock: Clock
) -> None:
    refused(ann.get("orders/1"), 404, "not_found")
    end(ann.user)
    clock.now += 60
    refused(ann.buy(sale), 401, "unauthorized")
    refused(ann.get("orders/1"), 401, "unauthorized")
    assert bob.buy(sale).status_code == 201


def test_token_issued_after_a_revocation_is_valid(ann: Buyer, sale: Any, clock: Clock) -> None:
    """Also in a process that has not read the newest generation yet."""
    old = ann.token
    for _ in range(2):
        change_password(ann.user)
        ann.token = tokens.issue_to(ann.user)
        assert ann.get("orders/1").status_code == 404
        clock.now += REFRESH + 1
        assert ann.get("orders/1").status_code == 404
    ann.token = old
    refused(ann.get("orders/1"), 401, "unauthorized")
    deactivate(ann.user)
    User.objects.filter(pk=ann.user.pk).update(is_active=True)
    clock.now += REFRESH + 1
    assert ann.get("orders/1").status_code == 401


def test_token_survives_other_changes_of_its_account(ann: Buyer, clock: Clock) -> None:
    Client().force_login(ann.user)  # which writes when it was
    User.objects.filter(pk=ann.user.pk).update(email="ann@example.org", is_staff=True)
    clock.now += 60
    assert ann.get("orders/1").status_code == 404


def test_token_is_not_issued_for_an_account_that_has_changed(ann: Buyer) -> None:
    read_before = User.objects.get(pk=ann.user.pk)
    change_password(ann.user)
    with pytest.raises(tokens.BadToken):
        tokens.issue_to(read_before)
    deactivate(ann.user)
    with pytest.raises(tokens.BadToken):
        tokens.issue_to(ann.user)


def test_purchases_cost_no_query_for_it_but_one_in_ten_seconds(
    ann: Buyer, sale: Any, clock: Clock
) -> None:
    def queries_of_a_refused_purchase() -> int:
        with CaptureQueriesContext(connection) as queries:
            refused(ann.buy(sale, 0), 422, "invalid_quantity")
        return len(queries)

    queries_of_a_refused_purchase()
    assert [queries_of_a_refused_purchase() for _ in range(5)] == [0] * 5
    clock.now += REFRESH + 1
    assert [queries_of_a_refused_purchase() for _ in range(5)] == [1, 0, 0, 0, 0]


# --- many requests at once, and a database that does not answer ------------------------------


class SlowDatabase:
    """Stands in front of the query, and lets a test hold it up or break it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._read = tokens._revocations
        monkeypatch.setattr(tokens, "_revocations", self.read)

    def read(self) -> dict[int, int]:
        self.asked += 1
        assert self.may_answer.wait(30)
        return self._read()


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> SlowDatabase:
    return SlowDatabase(monkeypatch)


def test_token_check_waits_for_one_query_at_the_start(database: SlowDatabase) -> None:
    known = Generations()
    database.may_answer.clear()
    with ThreadPoolExecutor(50) as pool:
        asking = [pool.submit(on_this_thread, lambda: known.of(1)) for _ in range(50)]
        assert not any(future.done() for future in asking)
        database.may_answer.set()
        assert {future.result() for future in asking} == {0}
    assert database.asked == 1


def test_token_check_does_not_wait_for_a_refresh(database: SlowDatabase, clock: Clock) -> None:
    known = Generations()
    known.of(1)
    clock.now += REFRESH + 1
    database.may_answer.clear()
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(on_this_thread, lambda: known.of(1))
        wait_for(lambda: database.asked == 2)
        assert [known.of(1) for _ in range(1000)] == [0] * 1000
        assert not one.done()
        database.may_answer.set()
        assert one.result() == 0
    assert database.asked == 2


def test_token_is_trusted_under_a_minute_without_the_database(
    ann: Buyer, sale: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    assert ann.get("orders/1").status_code == 404
    known = tokens.generations()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_tokengeneration RENAME TO away")
    try:
        clock.now += TOO_OLD - 1
        assert known.of(1) == 0
        assert "could not be read" in caplog.text
        clock.now += 2
        with pytest.raises(Unreadable):
            known.of(1)
        refused(ann.buy(sale), 503, "busy")
        refused(ann.post("orders/1/payment"), 503, "busy")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO accounts_tokengeneration")
    refused(ann.buy(sale), 503, "busy")  # for a second, it is not asked again
    clock.now += 1
    assert ann.buy(sale).status_code == 201


def test_token_generation_counts_from_its_commit(ann: Buyer, clock: Clock) -> None:
    with transaction.atomic():
        deactivate(ann.user)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(on_this_thread, lambda: tokens.verify(ann.token)).result()
    clock.now += REFRESH + 1
    with pytest.raises(tokens.BadToken, match="revoked"):
        tokens.verify(ann.token)
