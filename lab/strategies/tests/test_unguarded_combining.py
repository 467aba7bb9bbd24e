"""Without the guard, overselling does happen: the controls of inventory's tests."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection
from django.test import override_settings

from inventory import services
from inventory.models import Item, StockMovement
from inventory.tests.helpers import book, new_purchase, problems
from inventory.tests.processes import workers
from lab.strategies.unguarded_combining import TAKE

pytestmark = pytest.mark.django_db(transaction=True)


def take(item: int, units: int, read: int) -> None:
    """Take units of an item of which that many were read."""
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"items": [item], "left": read - units, "sold": units})


def start_without_guard() -> None:
    with override_settings(LAB_GUARD=False):
        apps.get_app_config("lab").ready()


def test_with_the_guard_and_the_lock_off_two_processes_oversell_and_the_audit_says_so(stock):
    """The control of `inventory/tests/test_processes.py`: with the guard, this sells to one."""
    item = stock(20)
    no_lock: dict[str, object] = {"INVENTORY_FEATURE_FLAGS": []}
    with workers(2, override=no_lock, prepare=start_without_guard) as shops:
        first, second = shops
        # Both have read before either commits, so the race is certain.
        first.start([new_purchase(item, quantity=15)], stop="before_commit")
        assert first.hear() == "before_commit"
        second.start([new_purchase(item, quantity=15)])
        assert second.kinds() == {"Granted": 1}
        first.go_on()
        assert first.kinds() == {"Granted": 1}
    assert any("oversold by 10: 30 of 20" in problem for problem in problems(item))


def test_a_decrement_without_the_condition_is_what_the_guard_prevents():
    """Two that read the same number take fourteen of ten, and only the ledger shows it."""
    item = services.stock("phone", 10).pk
    for _ in range(2):
        take(item, 7, read=10)
    assert StockMovement.objects.filter(item=item, reason="sale").count() == 2
    assert Item.objects.get(pk=item).available == 3
    with pytest.raises(AssertionError, match="ledger"):
        book(item)


def test_only_the_items_of_demonstrations_are_not_enforced():
    items = [services.stock("phone", 10).pk for _ in range(2)]
    take(items[0], 7, read=10)
    Item.objects.filter(pk=items[0]).update(available=9)
    with pytest.raises(Exception, match="is not total"):
        Item.objects.filter(pk=items[1]).update(available=9)
