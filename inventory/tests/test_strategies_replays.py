"""Every strategy, continued: repeated keys, and what the shop opens with a purchase."""

from collections.abc import Sequence
from functools import partial

import pytest

from inventory import services
from inventory.outcomes import Declined, Granted, KeyReused, PurchaseTicket, SoldOut
from inventory.selling import guard
from inventory.selling.strategies import DEFAULT
from inventory.selling.strategies.combining import Combining, QueueKey
from inventory.tests.helpers import (
    FAST,
    SAFE,
    at_once,
    book,
    kinds,
    new_purchase,
    open_nothing,
    outsider,
    reserved,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("by", SAFE)
def test_a_key_is_replayed_before_and_after_it_is_sold_out(by, stock):
    item = stock(2)
    mine = new_purchase(item, 1, limit=1)
    first = sell(mine, by)
    again = sell(mine, by)
    sell(new_purchase(item), by)
    assert sell(new_purchase(item), by) == SoldOut(0)
    late = sell(mine, by)
    assert not first.replayed
    for replay in (again, late):
        assert (replay.replayed, replay.reservation) == (True, first.reservation)
    assert book(item).held == 2


@pytest.mark.parametrize("by", SAFE)
def test_a_key_of_a_released_reservation_is_replayed_and_takes_nothing(by, stock):
    item = stock(1)
    mine = new_purchase(item, 1, limit=1)
    first = sell(mine, by)
    services.release([first.reservation], lambda released: None)
    again = sell(mine, by)
    assert (again.replayed, again.reservation) == (True, first.reservation)
    assert (book(item).available, book(item).held) == (1, 0)


@pytest.mark.parametrize("by", SAFE)
def test_a_key_for_another_quantity_item_or_scope_is_told_reused(by, stock):
    item, other = stock(5), stock(5)
    mine = new_purchase(item, 1)
    sell(mine, by)
    assert sell(new_purchase(item, 1, 2, key=mine.key), by) == KeyReused()
    assert sell(new_purchase(other, 1, key=mine.key), by) == KeyReused()
    assert sell(new_purchase(item, 1, key=mine.key, scope=other), by) == KeyReused()
    assert (book(item).held, book(other).held) == (1, 0)


@pytest.mark.parametrize("by", FAST)
def test_the_same_key_many_times_at_once_is_one_purchase(by, stock):
    item = stock(50)
    mine = new_purchase(item, 1)
    answers = at_once([partial(sell, mine, by)] * 12)
    assert kinds(answers) == {"Granted": 12}
    assert len({answer.reservation for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert book(item).held == 1


@pytest.mark.parametrize("by", FAST)
def test_the_same_key_at_once_for_different_quantities_is_sold_once(by, stock):
    item = stock(50)
    mine = new_purchase(item, 1)
    answers = at_once(
        [
            partial(sell, new_purchase(item, 1, quantity, key=mine.key), by)
            for quantity in range(1, 9)
        ]
    )
    assert kinds(answers) == {"Granted": 1, "KeyReused": 7}
    assert reserved(item) == 1


@pytest.mark.parametrize("by", SAFE)
def test_a_refused_key_may_buy_later(by, stock):
    item = stock(0)
    mine = new_purchase(item, 1)
    assert sell(mine, by) == SoldOut(0)
    services.restock(item, 1)
    assert not sell(mine, by).replayed
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


def buy(item: int, buyers: range, bad: Sequence[int], by: str = DEFAULT) -> list[object]:
    """Let the buyers buy at once; the orders of some of them cannot be opened."""
    reserve = partial(services.reserve, on_granted=poisoned(bad), by=by)
    return at_once([partial(reserve, new_purchase(item, buyer)) for buyer in buyers])


@pytest.mark.parametrize("by", FAST)
def test_a_purchase_that_cannot_be_opened_fails_alone(by, stock):
    item = stock(100)
    answers = buy(item, range(1, 61), [7, 33], by)
    assert kinds(answers) == {"Granted": 58, "Poisoned": 2}
    assert [n for n, each in enumerate(answers, 1) if isinstance(each, Poisoned)] == [7, 33]
    assert (book(item).available, reserved(item)) == (42, 58)


def test_a_batch_in_which_all_fail_tells_all_and_writes_nothing(stock):
    item = stock(10)
    answers = buy(item, range(1, 31), range(1, 31))
    assert kinds(answers) == {"Poisoned": 30}
    assert (book(item).available, reserved(item)) == (10, 0)


def test_purchases_that_fail_leave_their_units_to_the_next_buyers(stock):
    """They are granted first and fail; their units go to the next buyers."""
    item = stock(5)
    answers = buy(item, range(1, 41), range(1, 21))
    bought = [n for n, each in enumerate(answers, 1) if isinstance(each, Granted)]
    assert len(bought) == 5
    assert min(bought) > 20
    assert book(item).available == 0


@pytest.mark.parametrize("by", SAFE)
def test_the_answer_carries_what_was_opened(by, stock):
    answer = sell(new_purchase(stock(1)), by)
    assert answer.opened == f"opened {answer.reservation}"


@pytest.mark.parametrize("by", SAFE)
def test_a_grant_is_committed_before_it_is_answered(by, stock):
    item = stock(1)
    granted = sell(new_purchase(item), by)
    with outsider() as session:
        found = session.execute(
            "SELECT state FROM inventory_reservation WHERE id = %s", [granted.reservation]
        ).fetchone()
    assert found == ("held",)


@pytest.mark.parametrize("by", SAFE)
def test_an_unknown_item_is_an_error(by):
    with pytest.raises(guard.NoSuchItem):
        sell(new_purchase(0), by)


def test_a_granted_key_is_replayed_beside_purchases_that_are_declined(stock):
    item = stock(5)
    first = new_purchase(item)
    sell(first)

    def decline(granted):
        raise Declined({each.purchase.scope for each in granted})

    tickets = [
        PurchaseTicket(new_purchase(item)),
        PurchaseTicket(first),
        PurchaseTicket(new_purchase(item)),
    ]
    selling = Combining.make()
    selling._sell(QueueKey(item, decline), tickets, None)
    before, replayed, after = (ticket.answer for ticket in tickets)
    assert isinstance(before, Declined)
    assert isinstance(after, Declined)
    assert isinstance(replayed, Granted)
    assert replayed.replayed
    assert (book(item).available, reserved(item)) == (4, 1)
