"""A scope that the shop declines while its purchases are in a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inventory.outcomes import Declined, Granted, PurchaseTicket
from inventory.selling.strategies.combining import Combining, Line
from inventory.tests.helpers import book, open_nothing, wish

pytestmark = pytest.mark.django_db(transaction=True)

CLOSED = 2


def decline(granted: Sequence[Granted]) -> list[str]:
    if any(grant.purchase.scope == CLOSED for grant in granted):
        raise Declined({CLOSED})
    return open_nothing(granted)


def test_a_declined_scope_takes_no_other_purchase_of_its_batch_with_it(stock):
    item = stock(10)
    tickets = [PurchaseTicket(wish(item, scope=scope)) for scope in (1, CLOSED, 3, CLOSED)]
    Combining.make()._sell_or_split(Line(item, decline), tickets, None)
    for ticket in tickets:
        if ticket.request.scope == CLOSED:
            with pytest.raises(Declined):
                ticket.result()
        else:
            assert isinstance(ticket.result(), Granted)
    assert (book(item).held, book(item).available) == (2, 8)
