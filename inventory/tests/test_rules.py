"""The selling rule alone: grants in order, never more than the stock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.outcomes import (
    Granted,
    KeyReused,
    LimitReached,
    Outcome,
    Purchase,
    PurchaseTicket,
    SoldOut,
)
from inventory.selling.rules import Known, decide
from inventory.tests.helpers import new_purchase

ITEM = 1


def sell(
    batch: Sequence[Purchase],
    available: int,
    known: dict[tuple[int, UUID], Known],
    used: dict[tuple[int, int], int],
) -> list[Outcome]:
    """Decide without writing; the tickets have answers of an attempt that was rolled back."""
    waiting = [PurchaseTicket(purchase, Granted(purchase, 1)) for purchase in batch]
    decision = decide(waiting, available, known, used)
    open_still = decision.granted + [repeat for repeat, _ in decision.repeats]
    assert not any(ticket.answer for ticket in open_still)
    assert decision.units == sum(ticket.request.quantity for ticket in decision.granted)
    for n, ticket in enumerate(decision.granted):
        ticket.answer = Granted(ticket.request, 100 + n, opened=n)
    decision.answer_repeats()
    return [cast("Outcome", ticket.answer) for ticket in waiting]


def test_an_empty_or_negative_purchase_is_an_error():
    for quantity in (0, -1):
        with pytest.raises(ValueError, match="at least one unit"):
            sell([new_purchase(ITEM, quantity=quantity)], 5, {}, {})


KEYS = [UUID(int=n) for n in range(4)]

purchases = st.builds(
    lambda buyer, key, quantity, limit, scope: new_purchase(
        ITEM, buyer, quantity, key=key, limit=limit, scope=scope
    ),
    st.integers(1, 4),
    st.sampled_from(KEYS),
    st.integers(1, 5),
    st.integers(1, 8),
    st.integers(1, 2),
)
batches = st.lists(purchases, max_size=30)
stock = st.integers(0, 40)
holdings = st.dictionaries(st.tuples(st.integers(1, 2), st.integers(1, 4)), st.integers(0, 8))
grants = st.dictionaries(
    st.tuples(st.integers(1, 4), st.sampled_from(KEYS)),
    st.builds(Known, st.integers(1, 99), st.integers(1, 2), st.integers(1, 2), st.integers(1, 5)),
    max_size=5,
)


@given(batches, stock, grants, holdings)
def test_every_purchase_gets_one_answer_and_it_is_true(batch, available, known, used):
    left, held = available, Counter(used)
    outcomes = sell(batch, available, known, used)
    assert len(outcomes) == len(batch)
    granted: dict[tuple[int, UUID], Granted] = {}
    for purchase, outcome in zip(batch, outcomes, strict=True):
        identity = (purchase.buyer, purchase.key)
        allowance = (purchase.scope, purchase.buyer)
        if identity in known:
            again = Granted(purchase, known[identity].reservation, replayed=True)
            assert outcome == (again if asked(known[identity]) == asked(purchase) else KeyReused())
        elif identity in granted:
            first = granted[identity]
            again = replace(first, replayed=True)
            assert outcome == (again if asked(first.purchase) == asked(purchase) else KeyReused())
        elif isinstance(outcome, SoldOut):
            assert outcome.available == left < purchase.quantity
        elif isinstance(outcome, LimitReached):
            assert outcome.left == max(purchase.limit - held[allowance], 0) < purchase.quantity
        else:
            assert isinstance(outcome, Granted)
            assert (outcome.purchase, outcome.replayed) == (purchase, False)
            granted[identity] = outcome
            left -= purchase.quantity
            held[allowance] += purchase.quantity
            assert held[allowance] <= purchase.limit
    assert left >= 0


def test_limits_count_the_grants_of_another_item():
    scope = 7
    used: dict[tuple[int, int], int] = {}
    first = new_purchase(ITEM, 1, 2, scope=scope, limit=3)
    second = new_purchase(ITEM + 1, 1, 2, scope=scope, limit=3)
    [granted] = sell([first], 5, {}, used)
    [refused] = sell([second], 5, {}, used)
    assert isinstance(granted, Granted)
    assert refused == LimitReached(1)


def asked(purchase: Purchase | Known) -> tuple[int, int, int]:
    """Return what a repeated purchase must have in common with the first of its key."""
    return purchase.item, purchase.scope, purchase.quantity
