"""A walk records the files that a request enters, and the documentation shows them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from inventory.selling.hint import SoldOutItems
from lab.environment import PROJECT
from lab.walk import Caller, walking
from shop import money

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_walk_has_the_files_of_the_product_in_their_order_and_no_others():
    with walking("example") as walk:
        SoldOutItems()
        money.to_minor(Decimal(1), "EUR")
        SoldOutItems()
    assert list(walk.calls) == ["inventory/selling/hint.py", "shop/money.py"]
    SoldOutItems()
    assert walk.calls["inventory/selling/hint.py"] == 2, "nothing is recorded afterwards"
    assert walk.moves == 3


def test_each_request_is_walked_with_the_demos_payment_provider(psp):
    walks = {walk.request: set(walk.calls) for walk in Caller().all()}
    assert list(walks) == ["purchase", "payment", "refund", "cancellation", "expiry", "webhook"]
    assert "inventory/selling/guard.py" in walks["purchase"]
    assert "shop/payments/http_provider.py" in walks["payment"] & walks["refund"]
    assert "inventory/release.py" in walks["refund"] & walks["cancellation"] & walks["expiry"]
    assert "shop/payments/webhooks.py" in walks["webhook"]


def test_the_architecture_shows_the_files_of_a_purchase_in_their_order():
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert Caller().purchase().markdown() in page, (
        "docs/architecture.md is out of date: "
        'replace its table by what `make walk ARGS="--only purchase --markdown"` prints'
    )
