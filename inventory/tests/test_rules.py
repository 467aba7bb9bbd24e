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
    known: dict[tuple[int, UUID], Known] | None = None,
    used: dict[tuple[int, int], int] | None = None,
) -> list[Outcome]:
    """Decide without writing."""
    waiting = tickets(batch)
    decision = decide(waiting, available, known or {}, used or {})
    for n, ticket in enumerate(decision.granted):
        ticket.answer = Granted(ticket.request, 100 + n, opened=n)
    decision.answer_repeats()
    return [cast("Outcome", ticket.answer) for ticket in waiting]


def tickets(batch: Sequence[Purchase]) -> list[PurchaseTicket]:
    return [PurchaseTicket(purchase) for purchase in batch]


def requests(waiting: Sequence[PurchaseTicket]) -> list[Purchase]:
    return [ticket.request for ticket in waiting]


def test_the_last_units_go_to_the_first_request_that_they_suffice_for():
    batch = [new_purchase(ITEM, quantity=quantity) for quantity in (3, 3, 2, 1)]
    assert [type(outcome) for outcome in sell(batch, 5)] == [Granted, SoldOut, Granted, SoldOut]


def test_an_empty_or_negative_purchase_is_an_error():
    for quantity in (0, -1):
        with pytest.raises(ValueError, match="at least one unit"):
            sell([new_purchase(ITEM, quantity=quantity)], 5)


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
    outcomes = sell(batch, available, known, used)
    assert len(outcomes) == len(batch)
    left, held = available, Counter(used)
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


def asked(purchase: Purchase | Known) -> tuple[int, int, int]:
    """Return what a repeated purchase must have in common with the first of its key."""
    return purchase.item, purchase.scope, purchase.quantity


@given(batches, stock, holdings)
def test_serving_in_two_batches_grants_what_serving_in_one_does(batch, available, used):
    together = requests(decide(tickets(batch), available, {}, used).granted)
    half = len(batch) // 2
    first = decide(tickets(batch[:half]), available, {}, used)
    before = requests(first.granted)
    held = Counter(used)
    for purchase in before:
        held[purchase.scope, purchase.buyer] += purchase.quantity
    known = {
        (each.buyer, each.key): Known(n, each.item, each.scope, each.quantity)
        for n, each in enumerate(before)
    }
    second = decide(tickets(batch[half:]), available - first.units, known, held)
    assert together == before + requests(second.granted)


@given(batches, stock, grants, holdings)
def test_every_ticket_is_written_or_repeats_or_has_its_answer(batch, available, known, used):
    """Even if it has the answer of an attempt that was rolled back."""
    waiting = tickets(batch)
    for ticket in waiting:
        ticket.answer = Granted(ticket.request, 1)
    decision = decide(waiting, available, known, used)
    unanswered = [ticket for ticket in waiting if ticket.answer is None]
    left_open = decision.granted + [repeat for repeat, _ in decision.repeats]
    assert sorted(map(id, unanswered)) == sorted(map(id, left_open))
