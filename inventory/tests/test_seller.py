"""The seller under real races: it is exact. Other sellers run many of these tests too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import pytest

from inventory import services
from inventory.audit import audit
from inventory.models import BuyerQuota
from inventory.outcomes import (
    Granted,
    KeyReused,
    LimitReached,
    NoSuchItem,
    NotOpened,
    PurchasesRefused,
    SoldOut,
)
from inventory.selling.queue import Seller, seller
from inventory.tests.helpers import (
    TIMEOUT,
    at_once,
    book,
    crowd,
    in_thread,
    insist,
    kinds,
    new_purchase,
    open_nothing,
    outsider,
    release,
    reserved,
    sell,
    sell_in_a_crowd,
    ticket,
    wait_until_blocked,
)
from locking.tests.helpers import eventually

pytestmark = pytest.mark.django_db(transaction=True)


# --- exact counts ------------------------------------------------------------------------------


def test_seller_with_many_threads_sells_exactly_the_stock(stock):
    sell_in_a_crowd(stock(2000), units=2000, buyers=5000, threads=250)


def test_seller_leaves_only_a_remainder_smaller_than_a_purchase(stock):
    item = stock(40)
    answers = crowd(sell, [new_purchase(item, quantity=3) for _ in range(24)], 8)
    assert kinds(answers) == {"Granted": 13, "SoldOut": 11}
    assert {answer for answer in answers if isinstance(answer, SoldOut)} == {SoldOut(1)}
    assert isinstance(sell(new_purchase(item)), Granted)
    assert book(item).available == 0


def test_items_do_not_take_each_others_units(stock):
    items = [stock(15), stock(25)]
    purchases = [new_purchase(items[n % 2]) for n in range(80)]
    assert kinds(crowd(sell, purchases, 8)) == {"Granted": 40, "SoldOut": 40}
    assert [book(item).held for item in items] == [15, 25]


def test_purchases_of_one_queue_are_granted_in_order_of_arrival(stock):
    """They queue behind a leader that waits for the row; the next batch contains all of them."""
    item = stock(3)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM inventory_item WHERE id = %s FOR UPDATE", [item])
        with in_thread(lambda: sell(new_purchase(item, 1))) as leader:
            wait_until_blocked(1)
            with in_queue(item, [2, 3, 4, 5]) as followers:
                session.execute("COMMIT")
                answers = [leader(), *(follower() for follower in followers)]
    assert [type(answer) for answer in answers] == [Granted] * 3 + [SoldOut] * 2
    assert answers[3:] == [SoldOut(0)] * 2


@contextmanager
def in_queue(item: int, buyers: Sequence[int]) -> Iterator[list[Callable[[], object]]]:
    """Queue buyers in order in this process's queue."""
    selling = seller()
    line = next(iter(selling._queue.lines))
    with ExitStack() as stack:
        waits = []
        for buyer in buyers:
            waits.append(stack.enter_context(in_thread(partial(sell, new_purchase(item, buyer)))))
            eventually(lambda: selling._queue.waiting(line) == len(waits))
        yield waits


# --- limits ------------------------------------------------------------------------------------


def test_limit_refusal_names_what_is_left_and_takes_nothing(stock):
    """Not "sold out": the refused purchase returns the units that it took."""
    item = stock(100)
    assert sell(new_purchase(item, 1, 5, limit=3)) == LimitReached(3)
    assert isinstance(sell(new_purchase(item, 1, 2, limit=3)), Granted)
    assert sell(new_purchase(item, 1, 2, limit=3)) == LimitReached(1)
    assert isinstance(sell(new_purchase(item, 1, limit=3)), Granted)
    for limit in (3, 1):  # also one that was lowered
        assert sell(new_purchase(item, 1, limit=limit)) == LimitReached(0)
    assert book(item).available == 97
    assert isinstance(sell(new_purchase(item, 2, limit=1)), Granted)


def test_limit_holds_for_concurrent_requests_of_a_buyer(stock):
    item = stock(1000)
    buys = [
        partial(sell, new_purchase(item, buyer, limit=2)) for _ in range(4) for buyer in (1, 2, 3)
    ]
    assert kinds(at_once(buys)) == {"Granted": 6, "LimitReached": 6}
    assert book(item).held == 6


def test_limit_over_two_items_holds_for_concurrent_purchases(stock):
    """The item's lock cannot help here: the quota's condition decides."""
    items = [stock(100), stock(100)]
    scope = items[0]
    buys = [partial(sell, new_purchase(item, 1, limit=3, scope=scope)) for item in items * 10]
    assert kinds(at_once(buys)) == {"Granted": 3, "LimitReached": 17}
    assert sum(entry.held for entry in audit(items).items) == 3
    assert audit(items).problems == []


# --- controls: without the guards, the errors do happen ----------------------------------------


def test_limit_over_two_items_breaks_without_its_condition(stock):
    """The control of the limit over two items: reading and writing in two steps breaks it."""
    items = [stock(10), stock(10)]
    scope = items[0]
    BuyerQuota.objects.create(scope=scope, buyer=1, used=0, allowed=100)
    both_have_read = threading.Barrier(2)

    def read_then_write(item: int) -> None:
        used = BuyerQuota.objects.get(scope=scope, buyer=1).used
        both_have_read.wait(TIMEOUT)
        if used + 1 <= 1:
            granted = sell(new_purchase(item, 1, limit=100, scope=scope))
            assert isinstance(granted, Granted)
            BuyerQuota.objects.filter(scope=scope, buyer=1).update(used=used + 1)

    at_once([partial(read_then_write, item) for item in items])
    assert sum(entry.held for entry in audit(items).items) == 2, "twice the limit"
    assert any("used 1 units of the limit and holds 2" in text for text in audit(items).problems)


# --- repeated keys, and what the shop opens with a purchase -------------------------------------


def test_key_is_replayed_before_and_after_the_item_is_sold_out(stock):
    item = stock(2)
    mine = new_purchase(item, 1, limit=1)
    first = sell(mine)
    again = sell(mine)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    late = sell(mine)
    assert not first.replayed
    for replay in (again, late):
        assert (replay.replayed, replay.reservation) == (True, first.reservation)
    assert book(item).held == 2


def test_key_of_a_released_reservation_is_replayed(stock):
    item = stock(1)
    mine = new_purchase(item, 1, limit=1)
    first = sell(mine)
    release(first.reservation)
    again = sell(mine)
    assert (again.replayed, again.reservation) == (True, first.reservation)
    assert (book(item).available, book(item).held) == (1, 0)


def test_key_for_another_quantity_item_or_scope_is_reused(stock):
    item, other = stock(5), stock(5)
    mine = new_purchase(item, 1)
    sell(mine)
    assert sell(new_purchase(item, 1, 2, key=mine.key)) == KeyReused()
    assert sell(new_purchase(other, 1, key=mine.key)) == KeyReused()
    assert sell(new_purchase(item, 1, key=mine.key, scope=other)) == KeyReused()
    assert (book(item).held, book(other).held) == (1, 0)


def test_key_used_at_once_for_two_quantities_buys_once(stock):
    item = stock(50)
    mine = new_purchase(item, 1)
    buys = [partial(sell, replace(mine, quantity=n)) for n in range(1, 5) for _ in range(3)]
    answers = at_once(buys)
    assert kinds(answers) == {"Granted": 3, "KeyReused": 9}
    granted = [answer for answer in answers if isinstance(answer, Granted)]
    assert len({(grant.reservation, grant.purchase.quantity) for grant in granted}) == 1
    assert sum(not grant.replayed for grant in granted) == 1
    assert (reserved(item), book(item).held) == (1, granted[0].purchase.quantity)


def test_key_that_was_refused_may_buy_later(stock):
    item = stock(0)
    mine = new_purchase(item, 1)
    assert sell(mine) == SoldOut(0)
    services.restock(item, 1)
    assert not sell(mine).replayed
    assert book(item).held == 1


# --- what is opened with a purchase ------------------------------------------------------------


class Poisoned(Exception):
    """The shop cannot open an order."""


def poisoned(buyers: Sequence[int]):
    def on_granted(granted: Sequence[Granted]) -> list[str]:
        if bad := {grant.purchase.buyer for grant in granted} & set(buyers):
            raise Poisoned(sorted(bad))
        return open_nothing(granted)

    return on_granted


def buy(item: int, buyers: range, bad: Sequence[int]) -> list[object]:
    """Let the buyers buy at once; the orders of some of them cannot be opened."""
    reserve = partial(services.reserve, on_granted=poisoned(bad))
    purchases = [partial(reserve, new_purchase(item, buyer)) for buyer in buyers]
    return at_once([partial(insist, purchase) for purchase in purchases])


def test_purchase_that_cannot_be_opened_fails_alone(stock):
    item = stock(100)
    answers = buy(item, range(1, 61), [7, 33])
    assert kinds(answers) == {"Granted": 58, "Poisoned": 2}
    assert [n for n, answer in enumerate(answers, 1) if isinstance(answer, Poisoned)] == [7, 33]
    assert (book(item).available, reserved(item)) == (42, 58)


def test_purchases_that_fail_leave_their_units_to_others(stock):
    """They are granted first and fail; their units go to the next buyers."""
    item = stock(5)
    answers = buy(item, range(1, 41), range(1, 21))
    bought = [n for n, answer in enumerate(answers, 1) if isinstance(answer, Granted)]
    assert len(bought) == 5
    assert min(bought) > 20
    assert book(item).available == 0


def test_grant_is_committed_before_it_is_answered(stock):
    item = stock(1)
    granted = sell(new_purchase(item))
    with outsider() as session:
        found = session.execute(
            "SELECT state FROM inventory_reservation WHERE id = %s", [granted.reservation]
        ).fetchone()
    assert found == ("held",)
    assert granted.opened == f"opened {granted.reservation}"


def test_seller_raises_for_an_unknown_item():
    with pytest.raises(NoSuchItem):
        sell(new_purchase(0))


def test_refused_purchase_takes_no_other_of_its_batch_with_it(stock):
    """Nor a repeated key of the same scope, for which nothing is opened."""
    item, closed = stock(10), 2
    known = new_purchase(item, scope=closed)
    sell(known)

    def decline(granted):
        if refused := [grant for grant in granted if grant.purchase.scope == closed]:
            raise PurchasesRefused({grant.reservation: NotOpened() for grant in refused})
        return open_nothing(granted)

    purchases = [new_purchase(item, scope=scope) for scope in (1, closed, 3, closed)]
    tickets = [ticket(purchase, on_granted=decline) for purchase in [*purchases, known]]
    Seller()._sell_or_split(tickets, None)
    answers = [type(ticket.answer) for ticket in tickets]
    assert answers == [list, NotOpened, list, NotOpened, list]
    assert (book(item).held, book(item).available) == (3, 7)
