"""Each sale is sold by its strategy, which can be changed while it is sold."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.db import OperationalError
from django.urls import reverse
from django.utils.html import escape
from prometheus_client import REGISTRY

from inventory.models import Reservation
from inventory.outcomes import Busy
from inventory.tests.helpers import at_once, in_thread
from lab.models import SaleStrategy
from lab.strategies import CLASSES, choice, strategy
from lab.strategies.choice import StrategyNames, choose, chosen, open_sale
from shop.catalogue.models import Sale
from shop.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)


def granted(by: str) -> float:
    """Return how many purchases a strategy has sold in this process."""
    labels = {"strategy": by, "outcome": "granted"}
    return REGISTRY.get_sample_value("inventory_purchase_seconds_count", labels) or 0


@pytest.mark.parametrize("name", ["", *CLASSES])
def test_purchase_is_sold_by_the_strategy_of_its_sale(ann, sale_of, name):
    sale = sale_of(strategy=name or "guard")
    if not name:
        SaleStrategy.objects.all().delete()
    before = granted(name or "combining")
    ann.order(sale)
    assert granted(name or "combining") - before == 1
    held, order = Reservation.objects.get(), Order.objects.get()
    assert (held.deadline, held.deadline - order.created) == (order.pay_before, sale.hold)


def test_strategies_of_all_sales_are_read_again_by_one_query(
    sale_of, monkeypatch, django_assert_num_queries
):
    sales = [sale_of(strategy=name).pk for name in ("guard", "naive", "combining")]
    names = StrategyNames()
    for sale in sales:
        names.get(sale)
    choose(Sale.objects.get(pk=sales[0]), "row_lock")
    with django_assert_num_queries(0):
        assert [names.get(sale) for sale in sales] == ["guard", "naive", "combining"]
    monkeypatch.setattr(names, "_fresh_until", 0.0)
    with django_assert_num_queries(1):
        assert [names.get(sale) for sale in sales] == ["row_lock", "naive", "combining"]


def test_strategy_of_an_unknown_sale_is_read_once_for_many(sale_of, monkeypatch):
    sale, reads, read = sale_of(strategy="guard").pk, [], choice._read

    def counted(sales):
        reads.append(sales)
        return read(sales)

    monkeypatch.setattr(choice, "_read", counted)
    names = StrategyNames()
    assert at_once([partial(names.get, sale)] * 8) == ["guard"] * 8
    assert sum(sale in sales for sales in reads) == 1


def test_strategy_of_a_known_sale_is_not_waited_for(sale_of, monkeypatch):
    sale, names = sale_of(strategy="guard").pk, StrategyNames()
    names.get(sale)
    reading, go_on, read = threading.Event(), threading.Event(), choice._read

    def slow(sales):
        reading.set()
        assert go_on.wait(30)
        return read(sales)

    monkeypatch.setattr(choice, "_read", slow)
    names._fresh_until = 0.0
    with in_thread(partial(names.get, sale)) as rereads:
        assert reading.wait(30)
        assert names.get(sale) == "guard"
        go_on.set()
        assert rereads() == "guard"


def test_strategy_without_the_database_is_kept_or_busy(sale_of, monkeypatch):
    sale, names = sale_of(strategy="guard").pk, StrategyNames()
    names.get(sale)

    def away(**_):
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(SaleStrategy.objects, "filter", away)
    names._fresh_until = 0.0
    assert names.get(sale) == "guard"
    with pytest.raises(Busy):
        names.get(sale + 1)


def test_strategy_that_is_unknown_is_refused_with_the_known():
    with pytest.raises(KeyError, match="combining"):
        strategy("combinig")
    with pytest.raises(ValidationError):
        open_sale(stock=1, price=1, limit=1, strategy="hope")
    assert not Sale.objects.exists()


def test_strategy_that_oversells_must_be_allowed(sale, settings):
    settings.SHOP_ALLOW_UNSAFE_STRATEGIES = False
    with pytest.raises(ValidationError, match="it is for demonstrations only"):
        choose(sale, "naive")
    assert chosen(sale.pk) == "combining"
    settings.SHOP_ALLOW_UNSAFE_STRATEGIES = True
    choose(sale, "naive")
    assert chosen(sale.pk) == "naive"


def test_strategy_that_oversells_is_refused_in_the_admin(admin_client, sale_of, settings):
    sale, add = sale_of(), reverse("admin:lab_salestrategy_add")
    SaleStrategy.objects.all().delete()
    settings.SHOP_ALLOW_UNSAFE_STRATEGIES = False
    answer = admin_client.post(add, {"sale": sale.pk, "name": "naive"})
    assert "it is for demonstrations only" in answer.content.decode()
    admin_client.post(add, {"sale": sale.pk, "name": "guard"})
    assert chosen(sale.pk) == "guard"
    listed = admin_client.get(reverse("admin:lab_salestrategy_changelist")).content.decode()
    form = admin_client.get(add).content.decode()
    for name, kind in CLASSES.items():
        assert escape(kind.summary) not in listed
        assert f"{name}: {escape(kind.summary)}" in form
