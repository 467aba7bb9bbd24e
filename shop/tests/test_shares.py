"""Requests of each kind have connections of their own, and nobody waits for long without one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection
from django.test import Client

from inventory.postgresql.base import DatabaseWrapper, Share
from inventory.tests.helpers import (
    TIMEOUT,
    counted,
    in_thread,
    locked,
    on_this_thread,
    outsider,
    pool_of_16,
    wait_until_blocked,
)
from locking.tests.helpers import eventually
from shop import shares
from shop.api.handler import ApiHandler, Serving
from shop.catalogue.models import Sale
from shop.conftest import Buyer
from shop.operating import outage
from shop.orders.models import Order
from shop.orders.transitions import ORDER_LOCK
from shop.payments.models import Payment
from shop.shares import OPERATORS, ORDERS, PURCHASES, READERS, SHARES, of_page
from shop.tests.openapi import refused
from shop.tests.provider import FakeProvider


@pytest.mark.parametrize(
    ("method", "path", "share"),
    [
        ("GET", "/", READERS),
        ("GET", "/sales/7/", READERS),
        ("POST", "/sales/7/", PURCHASES),
        ("GET", "/cart/", READERS),
        ("POST", "/cart/", PURCHASES),
        ("POST", "/cart/7/", READERS),
        ("GET", "/orders/7/", READERS),
        ("POST", "/orders/7/payment/", ORDERS),
        ("POST", "/orders/7/cancel/", ORDERS),
        ("POST", "/orders/7/refund/", ORDERS),
        ("POST", "/sign-in/", READERS),
        ("GET", "/admin/", OPERATORS),
        ("POST", "/admin/shop/sale/7/change/", OPERATORS),
        ("GET", "/readyz", OPERATORS),
        ("GET", "/api/v1/nothing", READERS),
    ],
)
def test_share_of_a_page_fits_its_purpose(method: str, path: str, share: Share) -> None:
    assert of_page({"REQUEST_METHOD": method, "PATH_INFO": path}) is share


def test_shares_add_up_to_the_pool() -> None:
    assert sum(share.part for share in SHARES) == 1


@pytest.fixture
def database(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """The database with a pool of 16."""
    with pool_of_16(monkeypatch) as found:
        yield found


def be_impatient(database: DatabaseWrapper, seconds: float = 0.1) -> None:
    """Let requests wait only shortly for a connection from now on."""
    for pool in database.pools():
        pool.timeout = seconds


class Crowd(ThreadPoolExecutor):
    """Requests at the same time, each in a thread of its own, which begins without a connection."""

    def begin(self, request: Callable[[], Any]) -> Any:
        """Begin a request; return what its answer will be."""
        return self.submit(on_this_thread, request)

    def ask(self, request: Callable[..., Any], *arguments: Any) -> Any:
        """Return the answer to a request."""
        return self.begin(partial(request, *arguments)).result(TIMEOUT)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with Crowd(50) as threads:
        yield threads


@pytest.mark.django_db(transaction=True)
def test_share_of_readers_leaves_connections_to_others(
    database: DatabaseWrapper, crowd: Crowd, ann: Buyer, sale: Sale
) -> None:
    order = ann.order(sale)
    # Only pages in another language than the first read the texts of products.
    chinese = Client(headers={"Accept-Language": "zh-hans"})
    with locked("shop_producttext"):
        pages = [crowd.begin(lambda: chinese.get(f"/sales/{sale.pk}/")) for _ in range(20)]
        wait_until_blocked(4)
        assert crowd.ask(ann.buy, sale).status_code == 201
        assert crowd.ask(ann.post, f"orders/{order}/payment").status_code == 200
        assert crowd.ask(Client().get, "/readyz").json()["servers"]["database"] == "ok"
        wait_until_blocked(4)
    assert [page.result(TIMEOUT).status_code for page in pages] == [200] * 20


@pytest.mark.django_db(transaction=True)
def test_reader_without_a_connection_gets_a_503(
    database: DatabaseWrapper, crowd: Crowd, ann: Buyer, sale: Sale
) -> None:
    order = ann.order(sale)
    # A test client also raises what another one's request has raised.
    page = lambda path: Client(raise_request_exception=False).get(path)  # noqa: E731
    with locked("shop_product"):
        pages = [crowd.begin(partial(page, f"/sales/{sale.pk}/")) for _ in range(4)]
        wait_until_blocked(4)
        be_impatient(database)
        for path in (f"orders/{order}", f"sales/{sale.pk}"):
            answer = crowd.ask(ann.get, path)
            refused(answer, 503, "busy")
            assert int(answer["Retry-After"]) >= 1
        home = crowd.ask(page, "/")
        assert (home.status_code, home["Retry-After"]) == (503, "1")
    assert [page.result(TIMEOUT).status_code for page in pages] == [200] * 4


@pytest.mark.django_db(transaction=True)
def test_order_change_without_a_connection_is_refused(
    database: DatabaseWrapper,
    crowd: Crowd,
    ann: Buyer,
    bob: Buyer,
    sale_of: Callable[..., Sale],
) -> None:
    sale = sale_of(limit=10)
    *paid, last = [ann.order(sale) for _ in range(3)]
    with locked("shop_payment"):
        pay = [partial(ann.post, f"orders/{order}/payment") for order in paid]
        payments = [crowd.begin(each) for each in pay]
        wait_until_blocked(2)
        be_impatient(database)
        for change in ("payment", "cancel", "refund"):
            answer = crowd.ask(ann.post, f"orders/{last}/{change}")
            refused(answer, 503, "busy")
            assert int(answer["Retry-After"]) >= 1
        assert crowd.ask(bob.buy, sale).status_code == 201
        assert crowd.ask(ann.get, f"sales/{sale.pk}").status_code == 200
    assert [payment.result(TIMEOUT).status_code for payment in payments] == [200] * 2
    assert Order.objects.get(pk=last).status == "awaiting_payment"
    assert not Payment.objects.filter(order=last).exists()


@pytest.mark.django_db(transaction=True)
def test_connection_is_not_held_while_the_provider_is_asked(
    database: DatabaseWrapper,
    crowd: Crowd,
    ann: Buyer,
    sale_of: Callable[..., Sale],
    fake_provider: FakeProvider,
) -> None:
    """Thirty refunds wait for it, although orders are changed on two connections."""
    sale = sale_of(stock=30, limit=30)
    orders = [ann.order(sale) for _ in range(30)]
    for order in orders:
        ann.post(f"orders/{order}/payment")
    asked, go_on = threading.Semaphore(0), threading.Event()

    def hang(call: str) -> None:
        asked.release()
        assert go_on.wait(TIMEOUT)

    fake_provider.before = hang
    refunds = [crowd.begin(partial(ann.post, f"orders/{order}/refund")) for order in orders]
    try:
        for _ in orders:
            assert asked.acquire(timeout=TIMEOUT)
    finally:
        go_on.set()
    statuses = {refund.result(TIMEOUT).json()["status"] for refund in refunds}
    assert statuses == {"refunded"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("change", "table"),
    [("cancel", "shop_orderevent"), ("payment", "shop_payment"), ("refund", "shop_orderevent")],
)
def test_crowd_of_changes_is_served_or_busy_and_never_unknown(
    change: str,
    table: Any,
    database: DatabaseWrapper,
    crowd: Crowd,
    ann: Buyer,
    sale_of: Callable[..., Sale],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two wait for a table until the others have waited in vain for their connections."""
    sale = sale_of(stock=30, limit=30)
    orders = [ann.order(sale) for _ in range(20)]
    if change == "refund":
        for order in orders:
            ann.post(f"orders/{order}/payment")
    crowd.ask(ann.post, f"orders/{ann.order(sale)}/cancel")  # opens the pool
    be_impatient(database, 2.0)  # long enough for two of them to get their connections
    outage.lines._next = 0.0
    failed = counted("shop_database_failed_total")
    with locked(table):
        answers = [crowd.begin(partial(ann.post, f"orders/{order}/{change}")) for order in orders]
        eventually(lambda: sum(answer.done() for answer in answers) == 18)
    codes = Counter(answer.result(TIMEOUT).json().get("code", "done") for answer in answers)
    assert codes == {"done": 2, "busy": 18}
    assert counted("shop_database_failed_total") - failed == 18
    [line] = [record for record in caplog.records if record.name == outage.log.name]
    assert not line.exc_info


@pytest.mark.django_db(transaction=True)
def test_payment_under_way_does_not_wait_for_the_crowd(
    database: DatabaseWrapper,
    crowd: Crowd,
    ann: Buyer,
    sale_of: Callable[..., Sale],
    fake_provider: FakeProvider,
) -> None:
    """Changes that have not begun use up their connections while the provider works."""
    sale = sale_of(stock=9, limit=9)
    paid, *others = [ann.order(sale) for _ in range(3)]
    asked, go_on = threading.Event(), threading.Event()

    def hang(call: str) -> None:
        asked.set()
        assert go_on.wait(TIMEOUT)

    fake_provider.before = hang
    payment = crowd.begin(partial(ann.post, f"orders/{paid}/payment"))
    assert asked.wait(TIMEOUT)
    with outsider() as session, session.transaction():
        session.execute("SELECT FROM inventory_reservation FOR UPDATE")
        cancels = [crowd.begin(partial(ann.post, f"orders/{other}/cancel")) for other in others]
        wait_until_blocked(2)
        go_on.set()
        # It needs the same rows, and so it waits for them: it has a connection.
        wait_until_blocked(3)
    assert payment.result(TIMEOUT).json()["status"] == "paid"
    assert [cancel.result(TIMEOUT).json()["status"] for cancel in cancels] == ["cancelled"] * 2


@pytest.mark.django_db(transaction=True)
def test_change_keeps_its_connection_unless_it_must_wait(database: DatabaseWrapper) -> None:
    connected, locked_here = threading.Event(), threading.Event()

    def change() -> Any:
        connection.ensure_connection()
        connected.set()
        assert locked_here.wait(TIMEOUT)
        with ORDER_LOCK.hold(1):
            return connection.connection

    connection.ensure_connection()
    kept = connection.connection
    with in_thread(change) as other, ORDER_LOCK.hold(1):
        assert connection.connection is kept
        assert connected.wait(TIMEOUT)
        locked_here.set()
        [pool] = database.pools()
        eventually(lambda: pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"] - 1)
    assert other() is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "turns"), [("/", 1), ("/admin/login/", 1), ("/healthz", 0), ("/livez", 0)]
)
def test_pages_and_admin_take_turns_and_probes_do_not(
    path: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    monkeypatch.setattr(shares, "turns", SimpleNamespace(urgent=0, wait=lambda: taken.append(path)))
    environ = Client()._base_environ(PATH_INFO=path)  # type: ignore[attr-defined]
    ApiHandler(WSGIHandler())(environ, lambda *_: None)
    assert len(taken) == turns


def test_purchases_are_counted_while_they_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = SimpleNamespace(urgent=0, wait=lambda: None)
    monkeypatch.setattr(shares, "turns", turns)
    counts = []
    with suppress(RuntimeError), Serving(PURCHASES):
        with Serving(PURCHASES):
            counts.append(turns.urgent)
        raise RuntimeError
    with Serving(READERS):
        counts.append(turns.urgent)
    assert counts == [2, 0]
