"""Several items for one buyer: all or none, without deadlocks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from uuid import UUID, uuid4

import pytest

from inventory.metrics import metrics
from inventory.models import BuyerQuota, OutboxMessage, Reservation
from inventory.outcomes import Granted, KeyReused, LimitReached, SoldOut
from inventory.selling import batch, guard
from inventory.selling.cart import MAX_LINES, LineRefused, line_keys, reserve_many
from inventory.selling.hint import hint
from inventory.tests.helpers import (
    at_once,
    book,
    crowd,
    kinds,
    new_purchase,
    open_nothing,
    reserved,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)


def cart(lines: Sequence[tuple[int, int]], buyer: int = 1, key=None, **other):
    """Return purchases of (item, quantity) lines by one buyer."""
    keys = line_keys(key or uuid4(), len(lines))
    return [
        new_purchase(item, buyer, quantity, key=key, **other)
        for (item, quantity), key in zip(lines, keys, strict=True)
    ]


def take(lines: Sequence[tuple[int, int]], buyer: int = 1, **other):
    return reserve_many(cart(lines, buyer, **other), open_nothing)


def test_all_lines_are_reserved_and_opened_together_in_the_order_of_the_cart(stock):
    items = [stock(5), stock(5), stock(5)]
    lines = [(items[2], 1), (items[0], 2), (items[1], 3)]
    seen = []

    def open_one_order(granted: Sequence[Granted]) -> list[str]:
        seen.append([(grant.purchase.item, grant.purchase.quantity) for grant in granted])
        return ["order"] * len(granted)

    granted = reserve_many(cart(lines), open_one_order)
    assert isinstance(granted, list)
    assert (seen, [grant.opened for grant in granted]) == ([lines], ["order"] * 3)
    assert [book(item).available for item in items] == [3, 2, 4]


def test_a_line_that_is_sold_out_leaves_all_others_untouched_and_is_named(stock):
    plenty, few = stock(5), stock(1)
    assert take([(few, 2), (plenty, 1)]) == LineRefused(0, SoldOut(1))
    assert take([(plenty, 1), (few, 2)]) == LineRefused(1, SoldOut(1))
    assert (book(plenty).available, book(few).available) == (5, 1)
    assert Reservation.objects.count() == BuyerQuota.objects.count() == 0


def test_a_line_over_the_limit_leaves_all_others_untouched_and_is_named(stock):
    items = [stock(5), stock(5)]
    assert take([(items[0], 1), (items[1], 3)], limit=2) == LineRefused(1, LimitReached(2))
    assert [book(item).available for item in items] == [5, 5]


def test_the_limit_counts_what_the_buyer_has_from_elsewhere(stock):
    items = [stock(5), stock(5)]
    sell(new_purchase(items[1], 1, 2, limit=2))
    assert take([(items[0], 1), (items[1], 1)], limit=2) == LineRefused(1, LimitReached(0))
    assert book(items[0]).available == 5


def test_a_repeated_cart_gets_its_first_answer_and_takes_nothing(stock):
    items, key = [stock(5), stock(5)], uuid4()
    lines = [(item, 2) for item in items]
    first, second = take(lines, key=key), take(lines, key=key)
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert [grant.reservation for grant in second] == [grant.reservation for grant in first]
    assert all(grant.replayed for grant in second)
    assert [book(item).available for item in items] == [3, 3]


def test_thirty_repeats_of_a_cart_at_once_are_one_cart(stock):
    items, key = [stock(50), stock(50)], uuid4()
    calls = [partial(take, [(item, 1) for item in items], key=key)] * 30
    answers = at_once(calls)
    assert {tuple(grant.reservation for grant in answer) for answer in answers} == {
        tuple(Reservation.objects.order_by("item").values_list("pk", flat=True))
    }
    assert [book(item).available for item in items] == [49, 49]


@pytest.mark.parametrize("other", ["longer", "another quantity", "another item first"])
def test_a_key_of_another_cart_is_refused(other, stock):
    a, b, c = stock(5), stock(5), stock(5)
    key = uuid4()
    take([(a, 1), (b, 1)], key=key)
    lines = {
        "longer": [(a, 1), (b, 1), (c, 1)],
        "another quantity": [(a, 1), (b, 2)],
        "another item first": [(c, 1), (b, 1)],
    }[other]
    answer = take(lines, key=key)
    assert isinstance(answer, LineRefused)
    assert answer.outcome == KeyReused()
    assert [book(item).available for item in (a, b, c)] == [4, 4, 5]


def test_a_key_cannot_be_used_for_a_cart_and_for_a_single_purchase(stock):
    a, b, key = stock(5), stock(5), uuid4()
    take([(a, 1), (b, 1)], key=key)
    assert sell(new_purchase(b, 1, key=key)) == KeyReused()


def test_what_opening_raises_leaves_nothing_behind(stock):
    items = [stock(5), stock(5)]

    def fail(granted: Sequence[Granted]) -> list[str]:
        raise RuntimeError("no order today")

    with pytest.raises(RuntimeError, match="no order today"):
        reserve_many(cart([(item, 1) for item in items]), fail)
    assert [book(item).available for item in items] == [5, 5]
    assert Reservation.objects.count() == OutboxMessage.objects.count() == 0


def test_an_item_that_ran_out_through_a_cart_is_hinted_as_sold_out(stock):
    items = [stock(1), stock(2)]
    take([(item, 1) for item in items])
    level = hint().read(items[0])
    assert level is not None
    assert level.available == 0


def race(items: Sequence[int], carts: int, threads: int) -> list[object]:
    """Buy random pairs of items in any order, and single items, concurrently."""
    draw = random.Random(5)
    requests = []
    for buyer in range(1, carts + 1):
        chosen = draw.sample(items, 2 if buyer % 3 else 1)
        requests.append(cart([(item, 1) for item in chosen], buyer))

    def buy(lines):
        if len(lines) == 1:
            return sell(lines[0])
        return reserve_many(lines, open_nothing)

    return crowd(buy, requests, threads)


@pytest.fixture
def rows_first(monkeypatch):
    """Let every transaction lock its items' rows before it looks."""
    look = batch.look
    monkeypatch.setattr(batch, "look", lambda *given, locked: look(*given, locked=True))


@pytest.mark.parametrize("how", [None, "rows_first"])
def test_crossing_carts_and_single_purchases_sell_exactly_what_there_is(how, stock, request):
    if how:
        request.getfixturevalue(how)
    items = [stock(30) for _ in range(4)]
    before = metrics.read().get("tried_again", 0)
    answers = race(items, carts=150, threads=16)
    assert kinds(answers).keys() <= {"list", "Granted", "LineRefused", "SoldOut"}
    units = sum(
        len(each) if isinstance(each, list) else 1
        for each in answers
        if isinstance(each, list | Granted)
    )
    assert units == sum(30 - book(item).available for item in items)
    assert units == sum(reserved(item) for item in items)
    # A deadlock would have been retried.
    assert metrics.read().get("tried_again", 0) == before


@pytest.mark.parametrize("order", ["id", "random()"])
def test_only_rows_that_are_locked_in_one_order_cannot_deadlock(order, stock, monkeypatch):
    """With the negative control: without the order of items, carts deadlock."""
    for module, name in ((batch, "LOCK_AND_LOOK"), (batch, "LOOK"), (guard, "LOCK_ITEMS")):
        text = getattr(module, name)
        assert text.count("ORDER BY id") == 1
        monkeypatch.setattr(module, name, text.replace("ORDER BY id", f"ORDER BY {order}"))
    items = [stock(500) for _ in range(8)]
    before = metrics.read().get("tried_again", 0)
    for _ in range(20):
        at_once([partial(take, [(item, 1) for item in items], buyer) for buyer in range(16)])
        if metrics.read().get("tried_again", 0) > before:
            break
    assert (metrics.read().get("tried_again", 0) > before) == (order != "id")


def test_what_was_sold_between_the_look_and_the_commit_is_refused_as_ever(stock):
    """The units, or the buyer's allowance, are taken while the shop opens the cart."""
    few, plenty = stock(1), stock(9)

    def open_while_others_buy(granted: Sequence[Granted]) -> list[str]:
        at_once([partial(sell, new_purchase(few, 2)), partial(sell, new_purchase(plenty, 1))])
        return open_nothing(granted)

    answer = reserve_many(cart([(plenty, 1), (few, 1)]), open_while_others_buy)
    assert answer == LineRefused(1, SoldOut(0))
    answer = reserve_many(cart([(plenty, 2)], limit=3), open_while_others_buy)
    assert answer == LineRefused(0, LimitReached(1))
    assert (book(few).available, book(plenty).available) == (0, 7)
    assert Reservation.objects.filter(buyer=1).count() == 2


def test_a_key_in_two_lines_of_a_cart_is_refused(stock):
    lines = [new_purchase(stock(5), 1, key=UUID(int=7)) for _ in range(2)]
    assert reserve_many(lines, open_nothing) == LineRefused(1, KeyReused())
    assert Reservation.objects.count() == 0


@pytest.mark.parametrize("lines", [0, MAX_LINES + 1])
def test_a_cart_has_some_lines_and_not_too_many(lines):
    with pytest.raises(ValueError, match="lines"):
        reserve_many([new_purchase(1)] * lines, open_nothing)
