"""Every way of selling, with real races: the safe ones are exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from inventory import services
from inventory.audit import audit
from inventory.models import BuyerQuota, StockMovement
from inventory.outcomes import (
    Declined,
    Granted,
    KeyReused,
    LimitReached,
    PurchaseTicket,
    SoldOut,
)
from inventory.selling import guard
from inventory.selling.strategies import CLASSES, strategy
from inventory.selling.strategies.combining import Combining, Line
from inventory.tests.helpers import (
    PATIENCE,
    at_once,
    book,
    crowd,
    in_thread,
    keys_of,
    kinds,
    open_nothing,
    outsider,
    reserved,
    wait_until_blocked,
    wish,
)

pytestmark = pytest.mark.django_db(transaction=True)

SAFE = [name for name, strategy in CLASSES.items() if strategy.safe]
FAST = [name for name in SAFE if name != "redis_lock"]


def sell(purchase, by="combining"):
    return services.reserve(purchase, open_nothing, by=by)


def sell_in_a_crowd(by, item, units, buyers, threads):
    """Sell all units to a crowd; every count is exact."""
    purchases = [wish(item) for _ in range(buyers)]
    answers = crowd(partial(sell, by=by), purchases, threads)
    assert kinds(answers) == {"Granted": units, "SoldOut": buyers - units}
    assert (book(item).available, book(item).held, reserved(item)) == (0, units, units)
    told = {answer.purchase.key for answer in answers if isinstance(answer, Granted)}
    assert told == keys_of(item)


# --- exact counts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "units", "buyers", "threads"),
    [
        ("combining", 2000, 5000, 250),
        ("guard", 100, 250, 16),
        ("row_lock", 100, 250, 16),
    ],
)
def test_many_threads_on_one_item_leave_exactly_none_and_that_many_reservations(
    by, units, buyers, threads, stock
):
    item = stock(units)
    sell_in_a_crowd(by, item, units, buyers, threads)


def test_two_thousand_buyers_at_the_same_moment_buy_a_hundred_units(stock):
    item = stock(100)
    answers = at_once([partial(sell, wish(item)) for _ in range(2000)])
    assert kinds(answers) == {"Granted": 100, "SoldOut": 1900}
    assert (book(item).available, reserved(item)) == (0, 100)


@pytest.mark.parametrize("by", FAST)
def test_quantities_that_do_not_divide_the_stock_leave_only_what_nobody_asked_for(by, stock):
    item = stock(40)
    answers = crowd(partial(sell, by=by), [wish(item, quantity=3) for _ in range(24)], 8)
    assert kinds(answers) == {"Granted": 13, "SoldOut": 11}
    assert {answer for answer in answers if isinstance(answer, SoldOut)} == {SoldOut(1)}
    assert isinstance(sell(wish(item), by), Granted)
    assert book(item).available == 0


@pytest.mark.parametrize("by", SAFE)
def test_ten_units_sell_to_ten_and_the_eleventh_is_told_so(by, stock):
    item = stock(10)
    answers = [sell(wish(item), by) for _ in range(11)]
    assert kinds(answers) == {"Granted": 10, "SoldOut": 1}
    assert answers[-1] == SoldOut(0)


@pytest.mark.parametrize("by", FAST)
def test_items_do_not_take_each_others_units(by, stock):
    items = [stock(15), stock(25)]
    purchases = [wish(items[n % 2]) for n in range(80)]
    assert kinds(crowd(partial(sell, by=by), purchases, 8)) == {"Granted": 40, "SoldOut": 40}
    assert [book(item).held for item in items] == [15, 25]


def test_a_batch_is_one_movement_in_the_ledger(stock):
    item = stock(500)
    crowd(sell, [wish(item) for _ in range(500)], 100)
    sales = StockMovement.objects.filter(item=item, reason="sale").count()
    assert sales < 250, "so purchases were sold in batches"
    assert book(item).available == 0


def test_purchases_of_one_line_are_granted_in_order_of_arrival(stock):
    """They queue behind a leader that waits for the row; the next batch takes all of them."""
    item = stock(3)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM inventory_item WHERE id = %s FOR UPDATE", [item])
        with in_thread(lambda: sell(wish(item, 1))) as leader:
            wait_until_blocked(1)
            with in_line(item, [2, 3, 4, 5]) as followers:
                session.execute("COMMIT")
                answers = [leader(), *(each() for each in followers)]
    assert [type(answer) for answer in answers] == [Granted] * 3 + [SoldOut] * 2
    assert answers[3:] == [SoldOut(0)] * 2


@contextmanager
def in_line(item: int, buyers: Sequence[int]) -> Iterator[list[Callable[[], object]]]:
    """Buyers who queue one behind the other in the line of this process."""
    combining = strategy("combining")
    assert isinstance(combining, Combining)
    line = next(iter(combining._combiner._lines))
    with ExitStack() as stack:
        waits = []
        for place, buyer in enumerate(buyers, 1):
            waits.append(stack.enter_context(in_thread(partial(sell, wish(item, buyer)))))
            deadline = time.monotonic() + PATIENCE
            while combining._combiner.waiting(line) < place:
                assert time.monotonic() < deadline, "did not queue"
                time.sleep(0.001)
        yield waits


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", SAFE)
def test_a_buyer_at_the_limit_is_told_so_and_takes_nothing(by, stock):
    """Not "sold out": what the refused purchase took for a moment is put back with it."""
    item = stock(100)
    answers = [sell(wish(item, 1, limit=1), by) for _ in range(5)]
    assert kinds(answers) == {"Granted": 1, "LimitReached": 4}
    assert answers[1:] == [LimitReached(0)] * 4
    assert book(item).available == 99
    assert isinstance(sell(wish(item, 2, limit=1), by), Granted)


@pytest.mark.parametrize("by", SAFE)
def test_a_purchase_larger_than_the_limit_is_refused_with_what_is_left_of_it(by, stock):
    item = stock(100)
    assert sell(wish(item, 1, 5, limit=3), by) == LimitReached(3)
    assert isinstance(sell(wish(item, 1, 2, limit=3), by), Granted)
    assert sell(wish(item, 1, 2, limit=3), by) == LimitReached(1)
    assert isinstance(sell(wish(item, 1, 1, limit=3), by), Granted)
    assert book(item).held == 3


@pytest.mark.parametrize("by", FAST)
def test_requests_of_a_buyer_that_meet_get_no_more_than_the_limit(by, stock):
    item = stock(1000)
    buys = [partial(sell, wish(item, buyer, limit=2), by) for _ in range(4) for buyer in (1, 2, 3)]
    assert kinds(at_once(buys)) == {"Granted": 6, "LimitReached": 6}
    assert book(item).held == 6


def test_a_limit_over_two_items_holds_when_both_are_bought_at_once(stock):
    """The item's lock does not help here: the quota's own condition decides."""
    items = [stock(100), stock(100)]
    scope = items[0]
    buys = [partial(sell, wish(item, 1, limit=3, scope=scope)) for item in items * 10]
    assert kinds(at_once(buys)) == {"Granted": 3, "LimitReached": 17}
    assert sum(each.held for each in audit(items).items) == 3
    assert audit(items).problems == []


def test_a_buyer_is_not_blocked_by_a_hold_of_their_own(stock):
    item = stock(2)
    assert isinstance(sell(wish(item, 1, limit=2)), Granted)
    assert isinstance(sell(wish(item, 1, limit=2)), Granted)
    assert book(item).held == 2


def test_a_buyer_may_buy_again_after_the_units_went_back(stock):
    item = stock(1)
    first = sell(wish(item, 1, limit=1))
    assert sell(wish(item, 1, limit=1)) == LimitReached(0)
    services.release([first.reservation], lambda released: None)
    assert isinstance(sell(wish(item, 1, limit=1)), Granted)


def test_a_lowered_limit_refuses_and_does_not_fail(stock):
    item = stock(100)
    assert isinstance(sell(wish(item, 1, 3, limit=3)), Granted)
    for by in FAST:
        assert sell(wish(item, 1, limit=1), by) == LimitReached(0)


# --- replays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", SAFE)
def test_a_key_is_replayed_before_and_after_it_is_sold_out(by, stock):
    item = stock(2)
    mine = wish(item, 1, limit=1)
    first = sell(mine, by)
    again = sell(mine, by)
    sell(wish(item), by)
    assert sell(wish(item), by) == SoldOut(0)
    late = sell(mine, by)
    assert not first.replayed
    for replay in (again, late):
        assert (replay.replayed, replay.reservation) == (True, first.reservation)
    assert book(item).held == 2


@pytest.mark.parametrize("by", SAFE)
def test_a_key_of_a_released_reservation_is_replayed_and_takes_nothing(by, stock):
    item = stock(1)
    mine = wish(item, 1, limit=1)
    first = sell(mine, by)
    services.release([first.reservation], lambda released: None)
    again = sell(mine, by)
    assert (again.replayed, again.reservation) == (True, first.reservation)
    assert (book(item).available, book(item).held) == (1, 0)


@pytest.mark.parametrize("by", SAFE)
def test_a_key_for_another_quantity_item_or_scope_is_told_reused(by, stock):
    item, other = stock(5), stock(5)
    mine = wish(item, 1)
    sell(mine, by)
    assert sell(wish(item, 1, 2, key=mine.key), by) == KeyReused()
    assert sell(wish(other, 1, key=mine.key), by) == KeyReused()
    assert sell(wish(item, 1, key=mine.key, scope=other), by) == KeyReused()
    assert (book(item).held, book(other).held) == (1, 0)


@pytest.mark.parametrize("by", FAST)
def test_the_same_key_many_times_at_once_is_one_purchase(by, stock):
    item = stock(50)
    mine = wish(item, 1)
    answers = at_once([partial(sell, mine, by)] * 12)
    assert kinds(answers) == {"Granted": 12}
    assert len({answer.reservation for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert book(item).held == 1


@pytest.mark.parametrize("by", FAST)
def test_the_same_key_at_once_for_different_quantities_is_sold_once(by, stock):
    item = stock(50)
    mine = wish(item, 1)
    answers = at_once(
        [partial(sell, wish(item, 1, quantity, key=mine.key), by) for quantity in range(1, 9)]
    )
    assert kinds(answers) == {"Granted": 1, "KeyReused": 7}
    assert reserved(item) == 1


@pytest.mark.parametrize("by", SAFE)
def test_a_refused_key_may_buy_later(by, stock):
    item = stock(0)
    mine = wish(item, 1)
    assert sell(mine, by) == SoldOut(0)
    services.restock(item, 1)
    assert not sell(mine, by).replayed
    assert book(item).held == 1


# --- what is opened with a purchase ------------------------------------------------------------


class Poisoned(Exception):
    """What a shop raises when it cannot open an order."""


def poisoned(buyers: Sequence[int]):
    def on_granted(granted: Sequence[Granted]) -> list[str]:
        if bad := {grant.purchase.buyer for grant in granted} & set(buyers):
            raise Poisoned(sorted(bad))
        return open_nothing(granted)

    return on_granted


@pytest.mark.parametrize("by", FAST)
def test_a_purchase_that_cannot_be_opened_fails_alone(by, stock):
    item = stock(100)
    on_granted = poisoned([7, 33])
    answers = at_once(
        [partial(services.reserve, wish(item, n), on_granted, by=by) for n in range(1, 61)]
    )
    assert kinds(answers) == {"Granted": 58, "Poisoned": 2}
    assert [n for n, each in enumerate(answers, 1) if isinstance(each, Poisoned)] == [7, 33]
    assert (book(item).available, reserved(item)) == (42, 58)


def test_a_batch_in_which_everybody_fails_tells_everybody_and_writes_nothing(stock):
    item = stock(10)
    on_granted = poisoned(range(1, 31))
    answers = at_once([partial(services.reserve, wish(item, n), on_granted) for n in range(1, 31)])
    assert kinds(answers) == {"Poisoned": 30}
    assert (book(item).available, reserved(item)) == (10, 0)


def test_the_poisoned_do_not_eat_the_stock_of_those_behind_them(stock):
    """They were granted first and failed; the units they did not get go to the next in line."""
    item = stock(5)
    on_granted = poisoned(range(1, 21))
    answers = at_once([partial(services.reserve, wish(item, n), on_granted) for n in range(1, 41)])
    bought = [n for n, each in enumerate(answers, 1) if isinstance(each, Granted)]
    assert len(bought) == 5
    assert min(bought) > 20
    assert book(item).available == 0


def test_a_granted_key_is_replayed_beside_purchases_that_are_declined(stock):
    item = stock(5)
    first = wish(item)
    sell(first)

    def decline(granted):
        raise Declined({each.purchase.scope for each in granted})

    tickets = [PurchaseTicket(wish(item)), PurchaseTicket(first), PurchaseTicket(wish(item))]
    selling = Combining.make()
    selling._sell(Line(item, decline), tickets, None)
    before, replayed, after = (ticket.answer for ticket in tickets)
    assert isinstance(before, Declined)
    assert isinstance(after, Declined)
    assert isinstance(replayed, Granted)
    assert replayed.replayed
    assert (book(item).available, reserved(item)) == (4, 1)


@pytest.mark.parametrize("by", SAFE)
def test_what_was_opened_comes_with_the_answer(by, stock):
    answer = sell(wish(stock(1)), by)
    assert answer.opened == f"opened {answer.reservation}"


@pytest.mark.parametrize("by", SAFE)
def test_whoever_is_told_of_a_grant_finds_it_committed(by, stock):
    item = stock(1)
    granted = sell(wish(item), by)
    with outsider() as session:
        found = session.execute(
            "SELECT state FROM inventory_reservation WHERE id = %s", [granted.reservation]
        ).fetchone()
    assert found == ("held",)


@pytest.mark.parametrize("by", SAFE)
def test_there_must_be_such_an_item(by):
    with pytest.raises(guard.NoSuchItem):
        sell(wish(0), by)


# --- controls: what the guards above prevent does happen without them --------------------------


def test_row_lock_sells_to_one_of_two_who_would_check_before_either_writes(stock):
    """The same meeting cannot happen: the second one waits for the row before it checks."""
    item = stock(1)
    answers = at_once([partial(sell, wish(item), "row_lock") for _ in range(2)])
    assert kinds(answers) == {"Granted": 1, "SoldOut": 1}
    assert book(item).available == 0


def test_without_the_condition_on_the_quota_two_items_together_exceed_a_limit(stock):
    """The control of the limit over two items: read and write in two steps, and it breaks."""
    items = [stock(10), stock(10)]
    scope = items[0]
    BuyerQuota.objects.create(scope=scope, buyer=1, used=0, allowed=100)
    both_have_read = threading.Barrier(2)

    def read_then_write(item: int) -> None:
        used = BuyerQuota.objects.get(scope=scope, buyer=1).used
        both_have_read.wait(PATIENCE)
        if used + 1 <= 1:
            granted = sell(wish(item, 1, limit=100, scope=scope))
            assert isinstance(granted, Granted)
            BuyerQuota.objects.filter(scope=scope, buyer=1).update(used=used + 1)

    at_once([partial(read_then_write, item) for item in items])
    assert sum(each.held for each in audit(items).items) == 2, "twice the limit"
    assert any("counted for 1 units and holds 2" in text for text in audit(items).problems)
