"""The selling rule alone: grants in order, never more than the stock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
A, B, C = 1, 2, 3


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


def got(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        "replay" if isinstance(each, Granted) and each.replayed else type(each).__name__
        for each in outcomes
    ]


def test_units_go_in_order_of_arrival():
    batch = [new_purchase(ITEM, buyer) for buyer in (C, A, B)]
    outcomes = sell(batch, 2)
    assert got(outcomes) == ["Granted", "Granted", "SoldOut"]
    assert outcomes[2] == SoldOut(0)


def test_the_last_units_go_to_the_first_request_that_they_suffice_for():
    batch = [new_purchase(ITEM, quantity=quantity) for quantity in (3, 3, 2, 1)]
    outcomes = sell(batch, 5)
    assert got(outcomes) == ["Granted", "SoldOut", "Granted", "SoldOut"]
    assert outcomes[1] == SoldOut(2)


def test_the_limit_counts_what_the_same_batch_has_granted():
    batch = [new_purchase(ITEM, A, limit=3, quantity=quantity) for quantity in (2, 2, 1)]
    outcomes = sell(batch, 100)
    assert got(outcomes) == ["Granted", "LimitReached", "Granted"]
    assert outcomes[1] == LimitReached(1)


def test_the_limit_counts_what_was_bought_before_and_leaves_nothing_if_it_was_lowered():
    assert sell([new_purchase(ITEM, A, limit=3, quantity=2)], 9, used={(ITEM, A): 2}) == [
        LimitReached(1)
    ]
    assert got(sell([new_purchase(ITEM, A, limit=3)], 9, used={(ITEM, A): 2})) == ["Granted"]
    assert sell([new_purchase(ITEM, A, limit=1)], 9, used={(ITEM, A): 5}) == [LimitReached(0)]


def test_the_same_key_twice_in_a_batch_is_one_purchase_and_its_replay():
    one = new_purchase(ITEM, A, limit=1)
    first, again = sell([one, one], 5)
    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert got([first, again]) == ["Granted", "replay"]
    assert (again.reservation, again.opened) == (first.reservation, first.opened)


def test_a_key_refused_in_this_batch_may_be_asked_again_in_it():
    one = new_purchase(ITEM, A, quantity=2)
    assert got(sell([one, one], 1)) == ["SoldOut", "SoldOut"]


def test_the_same_key_for_another_quantity_is_told_reused_within_a_batch():
    one = new_purchase(ITEM, A)
    other = new_purchase(ITEM, A, quantity=2, key=one.key)
    assert got(sell([one, other], 5)) == ["Granted", "KeyReused"]


def test_the_same_key_of_two_buyers_is_two_purchases():
    one = new_purchase(ITEM, A)
    assert got(sell([one, new_purchase(ITEM, B, key=one.key)], 5)) == ["Granted", "Granted"]


def test_a_known_key_is_replayed_though_nothing_is_left_and_the_limit_is_reached():
    one = new_purchase(ITEM, A, limit=1)
    known = {(A, one.key): Known(7, ITEM, ITEM, 1)}
    [again] = sell([one], 0, known, {(ITEM, A): 1})
    assert again == Granted(one, 7, replayed=True)


@pytest.mark.parametrize(
    "before", [Known(7, ITEM, ITEM, 2), Known(7, 9, ITEM, 1), Known(7, ITEM, 9, 1)]
)
def test_a_known_key_of_another_purchase_is_told_reused(before):
    one = new_purchase(ITEM, A)
    assert sell([one], 5, {(A, one.key): before}) == [KeyReused()]


def test_an_empty_or_negative_purchase_is_an_error():
    for quantity in (0, -1):
        with pytest.raises(ValueError, match="at least one unit"):
            sell([new_purchase(ITEM, A, quantity=quantity)], 5)


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
    st.builds(Known, st.integers(1, 99), st.just(ITEM), st.integers(1, 2), st.integers(1, 5)),
    max_size=5,
)


@given(batches, stock, grants, holdings)
def test_every_purchase_gets_one_answer_and_it_is_true(batch, available, known, used):
    outcomes = sell(batch, available, known, used)
    assert len(outcomes) == len(batch)
    left, held = available, Counter(used)
    granted: dict[tuple[int, UUID], Purchase] = {}
    for purchase, outcome in zip(batch, outcomes, strict=True):
        identity = (purchase.buyer, purchase.key)
        allowance = (purchase.scope, purchase.buyer)
        if isinstance(outcome, SoldOut):
            assert outcome.available == left < purchase.quantity
        elif isinstance(outcome, LimitReached):
            assert outcome.left == max(purchase.limit - held[allowance], 0) < purchase.quantity
        elif isinstance(outcome, KeyReused):
            assert identity in known or granted[identity] != purchase
        elif outcome.replayed:
            assert identity in known or granted[identity].quantity == purchase.quantity
        else:
            assert outcome.purchase == purchase
            assert identity not in known
            assert identity not in granted
            granted[identity] = purchase
            left -= purchase.quantity
            held[allowance] += purchase.quantity
            assert held[allowance] <= purchase.limit
    assert left >= 0


@given(batches, stock, holdings)
def test_serving_in_two_batches_grants_what_serving_in_one_does(batch, available, used):
    """One batch or two: the outcome is the same."""
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
