"""Several items for one buyer: all or none, without deadlocks."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from functools import partial
from uuid import UUID, uuid4

import pytest

from inventory import services
from inventory.models import BuyerQuota, OutboxMessage, Reservation
from inventory.outcomes import (
    MAX_LINES,
    Cart,
    CartTicket,
    Granted,
    KeyReused,
    LimitReached,
    LineRefused,
    NoSuchItem,
    NotOpened,
    OutcomeUnknown,
    Purchase,
    PurchasesRefused,
    SoldOut,
    line_keys,
)
from inventory.selling import batch, guard
from inventory.selling.commit import CommitUnknown, ConditionFailed
from inventory.selling.queue import Seller
from inventory.services import reserve_many
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    counted,
    crowd,
    in_thread,
    kinds,
    new_purchase,
    open_nothing,
    problems,
    reserved,
    sell,
    ticket,
    wait_until_blocked,
)
from inventory.tests.processes import workers

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


def test_cart_reserves_and_opens_all_lines_in_its_order(stock):
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


def test_cart_with_a_refused_line_takes_nothing_and_names_it(stock):
    plenty, few = stock(5), stock(1)
    assert take([(few, 2), (plenty, 1)]) == LineRefused(0, SoldOut(1))
    assert take([(plenty, 1), (few, 2)]) == LineRefused(1, SoldOut(1))
    assert take([(few, 1), (plenty, 3)], limit=2) == LineRefused(1, LimitReached(2))
    assert (book(plenty).available, book(few).available) == (5, 1)
    assert Reservation.objects.count() == BuyerQuota.objects.count() == 0
    sell(new_purchase(plenty, 1, 2, limit=2))
    assert take([(few, 1), (plenty, 1)], limit=2) == LineRefused(1, LimitReached(0))
    assert book(few).available == 1


def test_cart_counts_a_limit_over_all_items_of_a_scope(stock):
    items = [stock(5), stock(5)]
    for first, second in (items, reversed(items)):
        lines = [(first, 1), (second, 1)]
        assert take(lines, scope=7, limit=1) == LineRefused(1, LimitReached(0))
    assert Reservation.objects.count() == 0
    assert isinstance(take(lines, scope=7, limit=2), list)


def test_repeats_of_a_cart_get_its_first_answer_and_take_nothing(stock):
    items, key = [stock(50), stock(50)], uuid4()
    call = partial(take, [(item, 2) for item in items], key=key)
    answers = [*at_once([call] * 30), call()]
    [granted] = {tuple(grant.reservation for grant in answer) for answer in answers}
    assert granted == tuple(Reservation.objects.order_by("item").values_list("pk", flat=True))
    assert sum(not grant.replayed for answer in answers for grant in answer) == 2
    assert [book(item).available for item in items] == [48, 48]


@pytest.mark.parametrize("other", ["longer", "another quantity", "another item first"])
def test_cart_refuses_a_key_of_another_cart(other, stock):
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
    assert sell(new_purchase(b, 1, key=key)) == KeyReused(), "nor is it one of a single purchase"
    assert [book(item).available for item in (a, b, c)] == [4, 4, 5]


def test_cart_leaves_nothing_behind_when_opening_fails(stock):
    items = [stock(5), stock(5)]

    def fail(granted: Sequence[Granted]) -> list[str]:
        raise RuntimeError("no order today")

    with pytest.raises(RuntimeError, match="no order today"):
        reserve_many(cart([(item, 1) for item in items]), fail)
    assert [book(item).available for item in items] == [5, 5]
    assert Reservation.objects.count() == OutboxMessage.objects.count() == 0


@pytest.mark.parametrize("rows_first", [False, True])
def test_carts_and_purchases_at_once_sell_exactly_the_stock(rows_first, stock, monkeypatch):
    """Sold by four sellers, as in four processes; also if each locks its rows before it looks."""
    if rows_first:
        look = batch.look
        monkeypatch.setattr(batch, "look", lambda *given, locked: look(*given, locked=True))
    items = [stock(30) for _ in range(4)]
    before = counted("inventory_tried_again_total")
    draw = random.Random(5)
    carts = [
        cart([(item, 1) for item in draw.sample(items, 2 if buyer % 3 else 1)], buyer)
        for buyer in range(1, 151)
    ]

    sellers = [Seller() for _ in range(4)]

    def buy(lines):
        return sellers[lines[0].buyer % 4].sell(Cart(lines, open_nothing))

    answers = crowd(buy, carts, 16)
    assert kinds(answers).keys() == {"list", "LineRefused"}
    units = sum(len(answer) for answer in answers if isinstance(answer, list))
    assert units == sum(30 - book(item).available for item in items)
    assert units == sum(reserved(item) for item in items)
    # A deadlock would have been retried.
    assert counted("inventory_tried_again_total") == before


@pytest.mark.parametrize("order", ["id", "random()"])
def test_carts_deadlock_without_one_order_of_row_locks(order, stock, monkeypatch):
    """With the negative control: without the order of items, carts deadlock."""
    for module, name in ((batch, "LOCK_AND_LOOK"), (batch, "LOOK"), (guard, "LOCK_ITEMS")):
        text = getattr(module, name)
        assert text.count("ORDER BY id") == 1
        monkeypatch.setattr(module, name, text.replace("ORDER BY id", f"ORDER BY {order}"))
    items = [stock(500) for _ in range(8)]
    before = counted("inventory_tried_again_total")
    sellers = [Seller() for _ in range(16)]
    for _ in range(20):
        carts = [
            Cart(cart([(item, 1) for item in items], buyer), open_nothing) for buyer in range(16)
        ]
        at_once([partial(seller.sell, lines) for seller, lines in zip(sellers, carts, strict=True)])
        if counted("inventory_tried_again_total") > before:
            break
    assert (counted("inventory_tried_again_total") > before) == (order != "id")
    # Deadlocks end after a second each; who gave a commit up meanwhile has left it to the server.
    wait_until_blocked(0)


def test_cart_is_refused_if_units_were_sold_after_the_look(stock):
    """The units, or the buyer's allowance, are taken while the shop opens the cart."""
    few, plenty, other = stock(1), stock(9), stock(9)

    def open_while_others_buy(granted: Sequence[Granted]) -> list[str]:
        at_once([partial(sell, new_purchase(few, 2)), partial(sell, new_purchase(plenty, 1))])
        return open_nothing(granted)

    answer = reserve_many(cart([(plenty, 1), (few, 1)]), open_while_others_buy)
    assert answer == LineRefused(1, SoldOut(0))
    lines = cart([(other, 1), (plenty, 2)], limit=3)
    assert reserve_many(lines, open_while_others_buy) == LineRefused(1, LimitReached(1))
    assert (book(few).available, book(plenty).available) == (0, 7)
    assert Reservation.objects.filter(buyer=1).count() == 2


def test_cart_with_one_key_in_two_lines_is_refused(stock):
    lines = [new_purchase(stock(5), 1, key=UUID(int=7)) for _ in range(2)]
    assert reserve_many(lines, open_nothing) == LineRefused(1, KeyReused())
    assert Reservation.objects.count() == 0


@pytest.mark.parametrize("lines", [0, MAX_LINES + 1])
def test_cart_has_at_least_one_line_and_at_most_the_maximum(lines):
    with pytest.raises(ValueError, match="lines"):
        reserve_many([new_purchase(1)] * lines, open_nothing)


# --- a few purchases each of several items in one transaction -----------------------------------


CLOSED = 2


def together(purchases: Sequence[Purchase], on_granted=open_nothing) -> list[CartTicket]:
    """Sell purchases in one transaction of several items; return their tickets."""
    tickets = [ticket(purchase, on_granted=on_granted) for purchase in purchases]
    batch.sell(tickets)
    return tickets


def while_another_item_is_sold(
    item: int, purchases: Sequence[Purchase], on_granted
) -> list[object]:
    """Make purchases at once while the transaction of another item is under way."""
    opening, opened = threading.Event(), threading.Event()

    def open_slowly(granted):
        opening.set()
        assert opened.wait(TIMEOUT)
        return open_nothing(granted)

    with in_thread(lambda: services.reserve(new_purchase(item), open_slowly)) as result:
        assert opening.wait(TIMEOUT)
        answers = at_once(
            [partial(services.reserve, purchase, on_granted) for purchase in purchases]
        )
        opened.set()
        assert isinstance(result(), Granted)
    return answers


def test_processes_at_many_items_sell_exactly_the_stock(stock):
    items = [stock(15) for _ in range(20)]
    purchases = [new_purchase(items[n % 20]) for n in range(600)]
    with workers(2) as shops:
        for n, shop in enumerate(shops):
            shop.start(purchases[n::2], threads=30)
        answered = shops[0].kinds() + shops[1].kinds()
    assert answered == {"Granted": 300, "SoldOut": 300}
    for item in items:
        assert (book(item).available, book(item).held, reserved(item)) == (0, 15, 15)
    # What was sold under an item's lock has its token.
    assert Reservation.objects.filter(item__in=items, token=None).exists()


def test_guard_without_its_condition_oversells(stock, monkeypatch):
    item, other = stock(1), stock(1)

    def open_while_another_buys(granted: Sequence[Granted]) -> list[str]:
        assert kinds(at_once([partial(sell, new_purchase(item))])) == {"Granted": 1}
        return open_nothing(granted)

    purchases = [new_purchase(item), new_purchase(other)]
    with pytest.raises(ConditionFailed):
        together(purchases, open_while_another_buys)
    assert (book(item).held, book(other).held) == (1, 0)
    condition = " AND available >= units"
    assert condition in guard.TAKE_OR_FAIL
    monkeypatch.setattr(guard, "TAKE_OR_FAIL", guard.TAKE_OR_FAIL.replace(condition, ""))
    item = stock(1)
    with pytest.raises(Exception, match="available") as refused:
        together([new_purchase(item), new_purchase(other)], open_while_another_buys)
    assert not isinstance(refused.value, ConditionFailed)
    assert not problems(item)


def test_joint_batch_keeps_an_items_error_from_the_others(stock):
    """Whatever goes wrong together is tried again for each item alone."""

    def decline(granted: Sequence[Granted]) -> list[str]:
        if closed := [grant for grant in granted if grant.purchase.scope == CLOSED]:
            raise PurchasesRefused({grant.reservation: NotOpened() for grant in closed})
        return open_nothing(granted)

    busy, *items = [stock(9) for _ in range(5)]
    limited = new_purchase(items[3], limit=1, quantity=2)
    nowhere = new_purchase(2**60)
    closed = new_purchase(items[0], scope=CLOSED)
    others = [new_purchase(items[0]), new_purchase(items[1]), new_purchase(items[2], quantity=10)]
    answers = while_another_item_is_sold(busy, [closed, limited, nowhere, *others], decline)
    assert isinstance(answers[0], NotOpened)
    assert answers[1] == LimitReached(1)
    assert isinstance(answers[2], NoSuchItem)
    assert kinds(answers[3:]) == {"Granted": 2, "SoldOut": 1}
    assert answers[5] == SoldOut(9)
    assert [book(item).held for item in (busy, *items)] == [1, 1, 1, 0, 0]


def test_joint_batch_sets_the_hint_of_an_item_that_runs_out(stock):
    busy, item = stock(9), stock(1)
    answers = while_another_item_is_sold(busy, [new_purchase(item)], open_nothing)
    assert kinds(answers) == {"Granted": 1}
    before = counted("inventory_refused_by_hint_total")
    assert sell(new_purchase(item)) == SoldOut(0)
    assert counted("inventory_refused_by_hint_total") == before + 1


@pytest.mark.parametrize("how", ["alone", "among others", "as a cart"])
@pytest.mark.parametrize("arrived", [True, False])
def test_cut_off_commit_is_never_answered_as_a_refusal(arrived, how, stock, monkeypatch):
    """A purchase that was committed is granted, once; another is unknown, never refused."""
    busy, item = stock(9), stock(1)
    commit = batch.open_and_commit

    def cut_off(tickets, *arguments, **how):
        if tickets[0].request.lines[0].item != item:
            return commit(tickets, *arguments, **how)
        monkeypatch.setattr(batch, "open_and_commit", commit)
        if arrived:
            commit(tickets, *arguments, **how)
        else:
            # Another process has sold the unit when this one asks again.
            answers = at_once([partial(Seller().sell, Cart((new_purchase(item),), open_nothing))])
            assert kinds(answers) == {"list": 1}
        raise CommitUnknown("the answer was cut off", locked=False)

    monkeypatch.setattr(batch, "open_and_commit", cut_off)
    before = counted("inventory_commit_unknown_total")
    mine = new_purchase(item)
    if how == "among others":
        [answer] = while_another_item_is_sold(busy, [mine], open_nothing)
    elif how == "alone":
        [answer] = at_once([partial(sell, mine)])
    else:
        lines = [mine, new_purchase(busy, mine.buyer)]
        [answer] = at_once([partial(reserve_many, lines, open_nothing)])
        answer = answer[0] if isinstance(answer, list) else answer
    assert counted("inventory_commit_unknown_total") == before + 1
    assert isinstance(answer, Granted if arrived else OutcomeUnknown)
    assert (book(item).held, reserved(item)) == (1, 1)
