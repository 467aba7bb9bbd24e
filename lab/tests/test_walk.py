"""A walk records the files that a request enters, and the documentation shows them."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from inventory.selling.hint import SoldOutItems
from lab.environment import PROJECT
from lab.walk import Caller, walking
from shop import money

pytestmark = pytest.mark.django_db(transaction=True)


def test_walk_lists_the_products_files_in_order():
    with walking("example") as walk:
        SoldOutItems()
        money.to_minor(Decimal(1), "EUR")
        SoldOutItems()
    assert list(walk.calls) == ["inventory/selling/hint.py", "shop/money.py"]
    SoldOutItems()
    assert walk.calls["inventory/selling/hint.py"] == 2, "nothing is recorded afterwards"
    assert walk.moves == 3


@pytest.mark.long
def test_walk_uses_the_demos_payment_provider(psp):
    walks = {walk.request: set(walk.calls) for walk in Caller().all()}
    assert list(walks) == ["purchase", "payment", "refund", "cancellation", "expiry", "webhook"]
    assert "inventory/selling/guard.py" in walks["purchase"]
    assert "shop/payments/http_provider.py" in walks["payment"] & walks["refund"]
    assert "inventory/release.py" in walks["refund"] & walks["cancellation"] & walks["expiry"]
    assert "shop/payments/webhooks.py" in walks["webhook"]


def test_purchase_enters_few_files():
    walk = Caller().purchase()
    assert len(walk.calls) <= 16, "a reader opens each of them"
    assert walk.moves <= 45


def test_purchase_enters_the_files_that_the_architecture_names():
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## One purchase\n")[2].partition("\n7. ")[0]
    named = set(re.findall(r"`([a-z_]+/[\w/]+\.py)`", section))
    before_the_view = {"serving/lane.py", "shop/shares.py"}  # the walk has no gunicorn
    assert len(named) >= 5
    assert named - before_the_view <= set(Caller().purchase().calls)
