"""A scope that the shop declines while its purchases are in a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inventory.outcomes import Declined, Granted, PurchaseTicket
from inventory.selling.seller import QueueKey, Seller
from inventory.tests.helpers import book, new_purchase, open_nothing

pytestmark = pytest.mark.django_db(transaction=True)

CLOSED = 2


def decline(granted: Sequence[Granted]) -> list[str]:
    if any(grant.purchase.scope == CLOSED for grant in granted):
        raise Declined({CLOSED})
    return open_nothing(granted)


def test_a_declined_scope_takes_no_other_purchase_of_its_batch_with_it(stock):
    item = stock(10)
    tickets = [PurchaseTicket(new_purchase(item, scope=scope)) for scope in (1, CLOSED, 3, CLOSED)]
    Seller()._sell_or_split(QueueKey(item, decline), tickets, None)
    for ticket in tickets:
        if ticket.request.scope == CLOSED:
            assert isinstance(ticket.answer, Declined)
        else:
            assert isinstance(ticket.answer, Granted)
    assert (book(item).held, book(item).available) == (2, 8)
