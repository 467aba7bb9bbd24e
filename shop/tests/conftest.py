"""A web server that the tests of a module share, a signed-in browser, and a check of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoDbBlocker

from development.processes import Web
from inventory.models import BuyerQuota, OutboxMessage, Reservation, StockMovement
from shop import checkout, redis
from shop.accounts.models import User
from shop.background import tasks
from shop.orders.models import Order
from shop.tests import still_clock
from shop.tests.catalogue import a_buyer
from shop.tests.processes import on_test_database


@pytest.fixture(scope="module")
def serve(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Callable[..., AbstractContextManager[int]]:
    """Serve the shop on the test's database, with these variables; yield its port."""

    @contextmanager
    def run(**variables: str) -> Iterator[int]:
        with django_db_blocker.unblock():
            given = on_test_database(WEB_CONCURRENCY="1", **variables)
        with Web(given) as web:
            yield web.port
            web.stop()
            assert "Traceback" not in web.log.read_text()

    return run


@pytest.fixture(scope="module")
def port(serve: Callable[..., AbstractContextManager[int]]) -> Iterator[int]:
    """The port of a web server."""
    with serve() as found:
        yield found


@pytest.fixture(autouse=True)
def no_further_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what a team limits besides, such as units per address: its own tests test it."""
    monkeypatch.setattr(checkout, "further_quotas", lambda sale, buyer, details: ())


@pytest.fixture
def buyer() -> User:
    return a_buyer()


@pytest.fixture
def browser(client: Client, buyer: User) -> Client:
    """A signed-in browser without JavaScript."""
    client.force_login(buyer)
    return client


@pytest.fixture
def writes_nothing(db: None) -> Iterator[None]:
    """Fail a test that wrote something, in spite of what it asked for."""
    yield
    for table in (Reservation, Order, BuyerQuota, OutboxMessage):
        assert not table.objects.exists()
    assert not StockMovement.objects.exclude(reason="restock").exists()


@pytest.fixture
def still_shop(
    settings: Any, monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> Iterator[None]:
    """A shop whose clock stands still, and whose servers may be as slow as they like."""
    monkeypatch.setattr(tasks, "ask_for", lambda task: True)
    monkeypatch.setattr(tasks, "SLICE", 600.0)
    for name in ("TIMEOUT", "CONNECT_TIMEOUT"):
        monkeypatch.setattr(redis, name, 60.0)
    settings.INVENTORY_MAX_WAIT = 600
    settings.SHOP_MAIL_INTERVAL = 0
    settings.REDIS_URL = settings.REDIS_URL  # makes clients anew, now and in the end
    with still_clock.stands_still():
        yield
