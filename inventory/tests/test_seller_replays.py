"""The seller, continued: repeated keys, and what the shop opens with a purchase."""

from collections.abc import Sequence
from functools import partial

import pytest

from inventory import services
from inventory.outcomes import Declined, Granted, KeyReused, NoSuchItem, PurchaseTicket, SoldOut
from inventory.selling.seller import QueueKey, Seller
from inventory.tests.helpers import (
    at_once,
    book,
    insist,
    kinds,
    new_purchase,
    open_nothing,
    outsider,
    release,
    reserved,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_key_is_replayed_before_and_after_it_is_sold_out(stock):
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


def test_a_key_of_a_released_reservation_is_replayed_and_takes_nothing(stock):
    item = stock(1)
    mine = new_purchase(item, 1, limit=1)
    first = sell(mine)
    release(first.reservation)
    again = sell(mine)
    assert (again.replayed, again.reservation) == (True, first.reservation)
    assert (book(item).available, book(item).held) == (1, 0)


def test_a_key_for_another_quantity_item_or_scope_is_told_reused(stock):
    item, other = stock(5), stock(5)
    mine = new_purchase(item, 1)
    sell(mine)
    assert sell(new_purchase(item, 1, 2, key=mine.key)) == KeyReused()
    assert sell(new_purchase(other, 1, key=mine.key)) == KeyReused()
    assert sell(new_purchase(item, 1, key=mine.key, scope=other)) == KeyReused()
    assert (book(item).held, book(other).held) == (1, 0)


def test_the_same_key_many_times_at_once_is_one_purchase(stock):
    item = stock(50)
    mine = new_purchase(item, 1)
    answers = at_once([partial(sell, mine)] * 12)
    assert kinds(answers) == {"Granted": 12}
    assert len({answer.reservation for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert book(item).held == 1


def test_the_same_key_at_once_for_different_quantities_is_sold_once(stock):
    item = stock(50)
    mine = new_purchase(item, 1)
    answers = at_once(
        [partial(sell, new_purchase(item, 1, quantity, key=mine.key)) for quantity in range(1, 9)]
    )
    assert kinds(answers) == {"Granted": 1, "KeyReused": 7}
    assert reserved(item) == 1


def test_a_refused_key_may_buy_later(stock):
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


def test_a_purchase_that_cannot_be_opened_fails_alone(stock):
    item = stock(100)
    answers = buy(item, range(1, 61), [7, 33])
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


def test_the_answer_carries_what_was_opened(stock):
    answer = sell(new_purchase(stock(1)))
    assert answer.opened == f"opened {answer.reservation}"


def test_a_grant_is_committed_before_it_is_answered(stock):
    item = stock(1)
    granted = sell(new_purchase(item))
    with outsider() as session:
        found = session.execute(
            "SELECT state FROM inventory_reservation WHERE id = %s", [granted.reservation]
        ).fetchone()
    assert found == ("held",)


def test_an_unknown_item_is_an_error():
    with pytest.raises(NoSuchItem):
        sell(new_purchase(0))


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
    selling = Seller()
    selling._sell(QueueKey(item, decline), tickets, None)
    before, replayed, after = (ticket.answer for ticket in tickets)
    assert isinstance(before, Declined)
    assert isinstance(after, Declined)
    assert isinstance(replayed, Granted)
    assert replayed.replayed
    assert (book(item).available, reserved(item)) == (4, 1)


def test_a_declined_scope_takes_no_other_purchase_of_its_batch_with_it(stock):
    item, closed = stock(10), 2

    def decline(granted):
        if any(grant.purchase.scope == closed for grant in granted):
            raise Declined({closed})
        return open_nothing(granted)

    tickets = [PurchaseTicket(new_purchase(item, scope=scope)) for scope in (1, closed, 3, closed)]
    Seller()._sell_or_split(QueueKey(item, decline), tickets, None)
    answers = [type(ticket.answer) for ticket in tickets]
    assert answers == [Granted, Declined, Granted, Declined]
    assert (book(item).held, book(item).available) == (2, 8)
