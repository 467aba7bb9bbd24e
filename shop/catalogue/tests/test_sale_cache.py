"""The sale cache: a second old at most, by one clock, and never the final decision."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.db import connection

from inventory.tests.helpers import at_once
from shop.catalogue import sale_cache as module
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import NoSuchSale, SaleCache


@pytest.fixture
def queries(db, django_assert_num_queries):
    return django_assert_num_queries


def test_a_fresh_notice_costs_no_query(sale, queries):
    cache = SaleCache()
    with queries(1):
        first = cache.get(sale.pk)
    with queries(0):
        assert cache.get(sale.pk) is first


def test_a_stale_notice_is_looked_at_again(sale, queries, monkeypatch):
    monkeypatch.setattr(module, "FRESH", 0.0)
    cache = SaleCache()
    cache.get(sale.pk)
    Sale.objects.filter(pk=sale.pk).update(paused=True)
    with queries(1):
        assert cache.get(sale.pk).closed() == "paused"


def test_sales_that_are_asked_for_are_looked_at_again_together(sale_of, queries, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])  # type: ignore[attr-defined]
    cache = SaleCache()
    one, other, forgotten = (sale_of().pk for _ in range(3))
    for pk in (one, other, forgotten):
        cache.get(pk)
    seconds[0] = 0.9 * module.FRESH
    cache.get(one)
    cache.get(other)
    Sale.objects.update(paused=True)
    seconds[0] = module.FRESH
    with queries(1):
        assert [cache.get(pk).paused for pk in (one, other, one)] == [True] * 3
    # Nobody had asked for this one since it was read, so it was not read again with the others.
    with queries(1):
        assert cache.get(forgotten).paused


def test_a_sale_that_was_read_a_moment_ago_is_not_looked_at_with_the_others(
    sale_of, queries, monkeypatch
):
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])  # type: ignore[attr-defined]
    cache = SaleCache()
    old, new = sale_of().pk, sale_of().pk
    cache.get(old)
    seconds[0] = 0.9 * module.FRESH
    first = cache.get(new)
    assert cache.get(new) is first
    seconds[0] = module.FRESH
    with queries(1):
        cache.get(old)
        assert cache.get(new) is first


def test_the_age_counts_from_before_the_reading_which_may_take_long(sale, queries, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])  # type: ignore[attr-defined]

    def slowly(execute, *args):
        found = execute(*args)
        seconds[0] += module.FRESH
        return found

    cache = SaleCache()
    with connection.execute_wrapper(slowly):
        cache.get(sale.pk)
    Sale.objects.filter(pk=sale.pk).update(paused=True)
    with queries(1):
        assert cache.get(sale.pk).closed() == "paused"


def test_a_sale_that_is_not_there_is_asked_for_each_time_and_not_remembered(queries):
    cache = SaleCache()
    for _ in range(2):
        with queries(1), pytest.raises(NoSuchSale):
            cache.get(0)
    assert not cache._sales


def test_the_memory_is_bounded(sale_of, db, monkeypatch):
    monkeypatch.setattr(module, "MAX_SALES", 3)
    cache = SaleCache()
    sales = [sale_of().pk for _ in range(5)]
    for pk in sales:
        assert cache.get(pk).sale == pk
    assert len(cache._sales) <= 3
    assert len(cache._fresh_until) <= 3


@pytest.mark.django_db(transaction=True)
def test_many_threads_that_look_at_once_all_see_the_sale(sale):
    for _ in range(20):
        cache = SaleCache()
        assert {each.sale for each in at_once([partial(cache.get, sale.pk)] * 8)} == {sale.pk}


def test_the_notice_knows_the_databases_time(sale):
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
    assert abs(SaleCache().refresh(sale.pk).now() - now) < timedelta(seconds=5)
