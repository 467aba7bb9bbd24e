"""The buyers who do not come through the web, in the tests' own database."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from inventory.models import Item
from lab.proof.direct import BUYERS, KEYS, DirectBuyers
from loadtest.history import OK, Recorder, operations
from loadtest.roles import LIMITED, MAIN, TIMED
from shop.accounts import tokens
from shop.orders.models import Order, OrderLine
from shop.tests.catalogue import a_sale

pytestmark = pytest.mark.django_db(transaction=True)


def test_direct_buyers_race_up_to_the_limit_and_leave_a_history(tmp_path: Path) -> None:
    sales = {
        MAIN: a_sale(stock=3, limit=1),
        LIMITED: a_sale(stock=20, limit=4),
        TIMED: a_sale(stock=20, limit=4),
    }
    recorder = Recorder(tmp_path / "direct.jsonl")
    buyers = DirectBuyers(sales, recorder, Random(1))
    for number in range(BUYERS):
        buyers.race(number)
    buyers.close()
    recorder.close()
    calls = list(operations(recorder.path))
    # A cart of two lines is two calls.
    assert len({each.cart or each.call for each in calls}) < len(calls)
    assert len(calls) > BUYERS * (KEYS + 1)
    assert {each.status for each in calls} <= {200, 201, 409}
    assert any(each.code == "limit_reached" for each in calls)
    promised = {each.order for each in calls if each.outcome == OK}
    assert promised == {str(pk) for pk in Order.objects.values_list("pk", flat=True)}
    for call in calls:
        if call.outcome == OK:
            order = Order.objects.get(pk=call.order or "")
            assert order.buyer_id == tokens.verify(buyers.tokens[call.buyer])
            assert call.shown is not None
            assert (call.shown.amount, call.shown.currency) == (order.amount, order.currency)
    for sale in sales.values():
        sold = sum(line.quantity for line in OrderLine.objects.filter(sale=sale))
        item = Item.objects.get(pk=sale.item_id)
        assert item.available == item.total - sold
