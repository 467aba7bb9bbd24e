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
    CartAnswer,
    Granted,
    KeyReused,
    LimitReached,
    LineRefused,
    NoSuchItem,
    Outcome,
    Purchase,
    SoldOut,
)
from inventory.selling.rules import Known, decide
from inventory.tests.helpers import new_purchase, ticket

ITEM = 1


def sell(
    batch: Sequence[Purchase],
    available: int,
    known: dict[tuple[int, UUID], Known],
    used: dict[tuple[int, int], int],
) -> list[Outcome]:
    """Decide purchases of one item without writing them."""
    answers = decide_all([[purchase] for purchase in batch], {ITEM: available}, known, used)
    return [answer.outcome if isinstance(answer, LineRefused) else answer[0] for answer in answers]


def decide_all(
    carts: Sequence[Sequence[Purchase]],
    available: dict[int, int],
    known: dict[tuple[int, UUID], Known],
    used: dict[tuple[int, int], int],
) -> list[CartAnswer]:
    """Decide without writing; the tickets have answers of an attempt that was rolled back."""
    waiting = [ticket(*cart) for cart in carts]
    for queued in waiting:
        queued.answer = [Granted(line, 1) for line in queued.request.lines]
    decision = decide(waiting, available, known, used)
    open_still = decision.granted + [repeat for repeat, _ in decision.repeats]
    assert not any(queued.answer for queued in open_still)
    ids = iter(range(100, 1000))
    for queued in decision.granted:
        queued.answer = [
            Granted(line, next(ids), opened=queued, line=position)
            for position, line in enumerate(queued.request.lines)
        ]
    decision.answer_repeats()
    answers = [cast("CartAnswer", queued.answer) for queued in waiting]
    assert decision.refused == [
        queued
        for queued, answer in zip(waiting, answers, strict=True)
        if isinstance(answer, LineRefused) and not isinstance(answer.outcome, KeyReused)
    ]
    return answers


def test_rules_refuse_a_purchase_of_less_than_one_unit():
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
def test_rules_give_every_purchase_one_true_answer(batch, available, known, used):
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
    stocks = {ITEM: 5, ITEM + 1: 5}
    granted, refused = decide_all([[first], [second]], stocks, {}, used)
    assert isinstance(granted, list)
    assert refused == LineRefused(0, LimitReached(1))


lines = st.builds(
    lambda item, quantity, limit, scope: (item, quantity, limit, scope),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 8),
    st.integers(1, 2),
)


@given(
    st.lists(st.lists(lines, min_size=1, max_size=4), max_size=20),
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
    holdings,
)
def test_carts_are_granted_whole_or_leave_all_to_the_others(carts, units, used):
    """Replayed by hand: what was granted fits, and what was refused does not, in this order."""
    wanted = [
        [
            new_purchase(item, buyer % 4 + 1, quantity, limit=limit, scope=scope)
            for item, quantity, limit, scope in cart
        ]
        for buyer, cart in enumerate(carts)
    ]
    stocks = dict(enumerate(units, 1))
    left, held = dict(stocks), Counter(used)
    for cart, answer in zip(wanted, decide_all(wanted, stocks, {}, used), strict=True):
        before = dict(left), Counter(held)
        for position, line in enumerate(cart):
            allowance = max(line.limit - held[line.scope, line.buyer], 0)
            if line.quantity > allowance:
                assert answer == LineRefused(position, LimitReached(allowance))
                break
            if line.quantity > left[line.item]:
                assert answer == LineRefused(position, SoldOut(left[line.item]))
                break
            left[line.item] -= line.quantity
            held[line.scope, line.buyer] += line.quantity
        else:
            assert isinstance(answer, list)
            assert [(grant.purchase, grant.line) for grant in answer] == [
                (line, position) for position, line in enumerate(cart)
            ]
            continue
        left, held = before
    assert stocks == left


def test_cart_of_a_missing_item_takes_nothing_and_says_which():
    lacking = ticket(new_purchase(ITEM), new_purchase(ITEM + 1))
    other = ticket(new_purchase(ITEM))
    decision = decide([lacking, other], {ITEM: 1}, {}, {})
    assert isinstance(lacking.answer, NoSuchItem)
    assert (decision.granted, decision.refused) == ([other], [])


def test_key_in_two_carts_of_a_batch_belongs_to_the_first():
    first = [new_purchase(ITEM, 1), new_purchase(ITEM + 1, 1)]
    longer = [*first, new_purchase(ITEM + 2, 1)]
    crossing = [new_purchase(ITEM + 2, 1), first[1]]
    stocks = {ITEM: 5, ITEM + 1: 5, ITEM + 2: 5}
    answers = decide_all([first, longer, crossing, first], stocks, {}, {})
    assert answers[1:3] == [LineRefused(0, KeyReused())] * 2
    for answer, replayed in ((answers[0], False), (answers[3], True)):
        assert isinstance(answer, list)
        assert [grant.replayed for grant in answer] == [replayed, replayed]
    assert stocks == {ITEM: 4, ITEM + 1: 4, ITEM + 2: 5}


def asked(purchase: Purchase | Known) -> tuple[int, int, int]:
    """Return what a repeated purchase must have in common with the first of its key."""
    return purchase.item, purchase.scope, purchase.quantity
