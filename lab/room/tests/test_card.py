"""The result card counts buyers by what they were told, and units by what the database has."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lab.models import UnenforcedItem
from lab.room.card import buyers_by_end, result_card
from loadtest.history import FAIL, INFO, OK, Operation
from shop.checkout import buy

pytestmark = pytest.mark.django_db(transaction=True)


def asked(buyer: str, outcome: str, code: str = "", op: str = "order") -> Operation:
    return Operation(1, f"{buyer}-{outcome}-{code}", op, "c", buyer, outcome=outcome, code=code)


def test_card_counts_a_buyer_once_by_the_last_answer():
    calls = [
        asked("ann", INFO),
        asked("ann", OK),
        asked("ann", FAIL, "limit_reached"),
        asked("bob", INFO),
        asked("bob", FAIL, "sold_out"),
        asked("cy", FAIL, "sold_out"),
        asked("di", FAIL, "rate_limited"),
        asked("ed", OK, op="look"),
        asked("flo", FAIL, "busy"),
        asked("flo", INFO),
    ]
    ends = {"got": 1, "no_answer": 1, "sold_out": 2, "refused": 1}
    assert dict(buyers_by_end(calls)) == ends


def test_card_shows_an_oversell_that_no_buyer_was_told(sale_of, ann):
    sale = sale_of(stock=3)
    buy(sale.pk, ann.user.pk, uuid4(), 2)
    card = result_card([asked("ann", OK)], sale.pk, handovers=4)
    assert (card["got"], card["units"], card["taken"], card["oversold"]) == (1, 3, 2, 0)
    assert f"item.id = {sale.item_id};" in card["query"]
    UnenforcedItem.add(sale.item_id)
    type(sale.item).objects.filter(pk=sale.item_id).update(total=1, available=0)
    card = result_card([], sale.pk, handovers=4)
    assert (card["oversold"], bool(card["problems"])) == (1, True)
