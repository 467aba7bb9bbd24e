"""What readers are shown: a second old at most, read once however many ask, by the right clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from inventory import services
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    counted,
    locked,
    on_this_thread,
    wait_until_blocked,
)
from locking.tests.helpers import eventually
from shop.catalogue import sale_cache
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import (
    AvailabilityCache,
    NoSuchSale,
    SaleCache,
    StockCache,
)
from shop.conftest import Buyer

Queries = Callable[[int], AbstractContextManager[Any]]

READERS = 30


@pytest.fixture
def queries(db: None, django_assert_num_queries: Queries) -> Queries:
    return django_assert_num_queries


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def queries_of(cache: StockCache) -> list[int]:
    """Count the sales of each query that a cache makes from now on."""
    read, counts = cache._read, []

    def count(sales: Any) -> Any:
        counts.append(len(sales))
        return read(sales)

    cache._read = count  # type: ignore[method-assign]
    return counts


def test_stock_cache_sends_one_query_per_second(
    sale: Sale, queries: Queries, seconds: list[float]
) -> None:
    cache = StockCache()
    with queries(1):
        first = cache.get(sale.pk)
        seconds[0] += 0.99
        assert cache.get(sale.pk) is first
    services.restock(sale.item_id, 5)
    seconds[0] += 0.01
    with queries(1):
        assert cache.get(sale.pk).available == 15


@pytest.mark.django_db(transaction=True)
def test_stock_cache_reads_for_all_who_wait_together(
    sale_of: Callable[..., Sale],
) -> None:
    cache = StockCache()
    counts = queries_of(cache)
    sales = [sale_of().pk for _ in range(5)]
    nowhere = [10**9, 10**9 + 1]
    with ThreadPoolExecutor(READERS) as pool:
        with locked("shop_sale"):
            asked = [sales[0]]
            asking = [pool.submit(on_this_thread, partial(cache.get, sales[0]))]
            eventually(lambda: counts == [1])
            asked += [*sales, *sales[:1] * 10, *sales[1:], *nowhere]
            asking += [pool.submit(on_this_thread, partial(cache.get, each)) for each in asked[1:]]
            eventually(lambda: cache._readers.waiting("sales") == len(asked) - 1)
            assert counted("inventory_waiting") == 0, "no purchases wait"
            wait_until_blocked(1)
        for sale, answer in zip(asked, asking, strict=True):
            if sale in nowhere:
                assert isinstance(answer.exception(TIMEOUT), NoSuchSale)
            else:
                found = answer.result(TIMEOUT)
                assert (found.sale.sale, found.available) == (sale, 10)
    assert counts == [1, len(sales) - 1 + len(nowhere)]


@pytest.mark.django_db(transaction=True)
def test_stock_cache_raises_an_error_and_forgets_it(
    sale: Sale, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = StockCache()
    began, go_on = threading.Event(), threading.Event()

    def fail(sales: Any) -> Any:
        began.set()
        assert go_on.wait(TIMEOUT)
        raise OperationalError("away")

    with monkeypatch.context() as patched, ThreadPoolExecutor(READERS) as pool:
        patched.setattr(cache, "_read", fail)
        asking = [pool.submit(on_this_thread, partial(cache.get, sale.pk))]
        assert began.wait(TIMEOUT)
        asking += [
            pool.submit(on_this_thread, partial(cache.get, sale.pk)) for _ in range(READERS - 1)
        ]
        eventually(lambda: cache._readers.waiting("sales") == READERS - 1)
        go_on.set()
        errors = [type(future.exception(TIMEOUT)) for future in asking]
    assert errors == [OperationalError] * READERS
    assert cache.get(sale.pk).available == 10


def test_stock_cache_remembers_an_unknown_id_for_a_second(
    queries: Queries, seconds: list[float]
) -> None:
    cache = StockCache()
    for _ in range(2):
        with queries(1):
            for _ in range(3):
                with pytest.raises(NoSuchSale):
                    cache.get(0)
        seconds[0] += sale_cache.FRESH


def test_availability_cache_notices_a_payment_after_a_second(
    sale: Sale, ann: Buyer, queries: Queries, seconds: list[float]
) -> None:
    order, cache = ann.order(sale), AvailabilityCache()
    with queries(1):
        assert cache.may(sale.item_id)
        assert cache.may(sale.item_id)
    ann.post(f"orders/{order}/payment")
    seconds[0] += sale_cache.FRESH
    with queries(1):
        assert not cache.may(sale.item_id)


@pytest.mark.parametrize("cache_of", [StockCache, SaleCache])
def test_caches_remember_a_bounded_number_of_sales(
    cache_of: type[StockCache | SaleCache],
    sale_of: Callable[..., Sale],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sale_cache, "MAX_SALES", 3)
    cache = cache_of()
    for pk in [sale_of().pk for _ in range(5)]:
        with pytest.raises(NoSuchSale):
            cache.get(-pk)
        assert cache.get(pk)
        for kept in vars(cache).values():
            assert not isinstance(kept, dict) or len(kept) <= 3


@pytest.mark.parametrize("cache_of", [StockCache, SaleCache])
def test_cached_sale_ages_from_before_its_reading(
    cache_of: type[StockCache | SaleCache], sale: Sale, queries: Queries, seconds: list[float]
) -> None:
    def slowly(execute: Any, *args: Any) -> Any:
        found = execute(*args)
        seconds[0] += 1.0
        return found

    cache = cache_of()
    with connection.execute_wrapper(slowly):
        cache.get(sale.pk)
    with queries(1):
        cache.get(sale.pk)


def test_cached_sale_opens_and_ends_by_the_databases_clock(
    sale_of: Callable[..., Sale], queries: Queries, seconds: list[float]
) -> None:
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    soon = sale_of(starts_in=hour, lasts=hour)
    shown = []
    with queries(1):
        stock = StockCache().get(soon.pk)
        for _ in range(3):
            shown.append((stock.status, stock.sale.now()))
            seconds[0] += (hour + minute).total_seconds()
    assert [status for status, _ in shown] == ["not_started", "open", "ended"]
    first, second, third = (now for _, now in shown)
    assert (second - first, third - second) == (hour + minute, hour + minute)


def test_sales_that_are_asked_for_are_looked_at_again_together(sale_of, queries, seconds):
    cache = SaleCache()
    one, other, forgotten = (sale_of().pk for _ in range(3))
    cache.get(forgotten)
    seconds[0] += 0.5 * sale_cache.IN_DEMAND
    for pk in (one, other):
        cache.get(pk)
    Sale.objects.update(paused=True)
    seconds[0] += 0.5 * sale_cache.IN_DEMAND
    with queries(1):
        assert [cache.get(pk).paused for pk in (one, other, one)] == [True] * 3
    # Nobody had asked for this one for a while, so it was not read again with the others.
    with queries(1):
        assert cache.get(forgotten).paused


@pytest.mark.django_db(transaction=True)
def test_sale_cache_reads_new_sales_for_all_who_wait_together(
    sale_of: Callable[..., Sale], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, counts = SaleCache(), []
    read = cache._read

    def count(sales: Any) -> Any:
        counts.append(len(sales))
        return read(sales)

    monkeypatch.setattr(cache, "_read", count)
    first, *others = sales = [sale_of().pk for _ in range(3)]
    nowhere = 10**9
    with ThreadPoolExecutor(READERS) as pool:
        with locked("shop_sale"):
            asking = [pool.submit(on_this_thread, partial(cache.get, first))]
            eventually(lambda: counts == [1])
            asked = [*sales, *others, nowhere]
            asking += [pool.submit(on_this_thread, partial(cache.get, pk)) for pk in asked]
            eventually(lambda: cache._readers.waiting("sales") == len(asked))
        *found, missing = asking
        assert [future.result(TIMEOUT).sale for future in found] == [first, *sales, *others]
        assert isinstance(missing.exception(TIMEOUT), NoSuchSale)
    assert counts == [1, len(others) + 1], "the first sale is known by the second query"


def test_sale_cache_does_not_read_a_fresh_sale_with_the_others(sale_of, queries, seconds):
    cache = SaleCache()
    old, new = sale_of().pk, sale_of().pk
    cache.get(old)
    seconds[0] += 0.9 * sale_cache.FRESH
    first = cache.get(new)
    with queries(0):
        assert cache.get(new) is first
    seconds[0] += 0.1 * sale_cache.FRESH + 0.01
    with queries(1):
        cache.get(old)
        assert cache.get(new) is first


def test_sale_cache_does_not_remember_an_unknown_id(queries):
    cache = SaleCache()
    for _ in range(2):
        with queries(1), pytest.raises(NoSuchSale):
            cache.get(0)
    assert not cache._sales


@pytest.mark.django_db(transaction=True)
def test_sale_cache_shows_the_sale_to_many_threads_at_once(sale):
    for _ in range(20):
        cache = SaleCache()
        assert {each.sale for each in at_once([partial(cache.get, sale.pk)] * 8)} == {sale.pk}
