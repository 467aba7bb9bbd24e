"""Release and confirm: exactly once each, however often called."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import transaction

from inventory import services
from inventory.audit import audit
from inventory.models import BuyerQuota, Reservation, StockMovement
from inventory.outcomes import Granted, LineRefused, NoSuchItem, SoldOut
from inventory.selling import guard
from inventory.tests.helpers import (
    at_once,
    book,
    new_purchase,
    open_nothing,
    release,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)

State = Reservation.State


def reserve(item: int, buyer: int = 1, quantity: int = 1) -> int:
    granted = sell(new_purchase(item, buyer, quantity))
    pk: int = granted.reservation
    return pk


def test_release_returns_units_and_allowance_exactly_once(stock):
    item = stock(5)
    mine = reserve(item, 1, 3)
    assert release(mine) == [services.Released(mine, item, 1, 3)]
    assert release(mine) == []
    assert (book(item).available, BuyerQuota.objects.get(buyer=1).used) == (5, 0)


def test_release_accepts_a_generator_of_reservations(stock):
    """It can be read only once and is needed more often."""
    item = stock(7)
    mine = [reserve(item, n) for n in range(1, 8)]
    with services.releasing(pk for pk in mine) as released:
        pass
    assert sorted(release.reservation for release in released) == mine
    assert book(item).available == 7


def test_releases_in_opposite_order_do_not_deadlock(stock):
    items = [stock(20), stock(20)]
    mine = [reserve(items[n % 2], n) for n in range(20)]
    calls = [partial(release, *mine), partial(release, *reversed(mine))] * 3
    assert sum(len(answer) for answer in at_once(calls)) == 20
    assert [book(item).available for item in items] == [20, 20]


def test_release_is_rolled_back_if_its_block_raises(stock):
    item = stock(5)
    mine = reserve(item)
    with pytest.raises(ValueError, match="no order"), services.releasing([mine]):
        raise ValueError("no order")
    assert (book(item).held, BuyerQuota.objects.get(buyer=1).used) == (1, 1)


def test_release_leaves_out_what_its_block_removes(stock):
    item = stock(5)
    mine, other = reserve(item, 1), reserve(item, 2)
    with services.releasing([mine, other]) as released:
        del released[0]
    assert [release.reservation for release in released] == [other]
    assert (book(item).available, book(item).held) == (4, 1)


def test_release_of_a_confirmed_reservation_must_be_requested(stock):
    item = stock(5)
    mine = reserve(item, 1, 3)
    with transaction.atomic():
        assert services.confirm(mine)
    assert release(mine) == []
    assert len(release(mine, was=State.CONFIRMED, units=1)) == 1
    assert (book(item).confirmed, book(item).available) == (2, 3)
    assert len(release(mine, was=State.CONFIRMED)) == 1
    assert book(item).available == 5


def test_confirm_accepts_a_held_reservation_once(stock):
    item = stock(5)
    mine, gone, late = reserve(item, 1), reserve(item, 2), reserve(item, 3)
    release(gone)
    Reservation.objects.filter(pk=late).update(deadline="2020-01-01T00:00Z")
    with transaction.atomic():
        confirmed = [services.confirm(reservation) for reservation in (mine, mine, gone, late)]
        assert confirmed == [True, False, False, False]
        assert services.confirm(late, late=True)
    assert (book(item).confirmed, book(item).held) == (2, 0)


@pytest.mark.parametrize(
    "call",
    [lambda item: services.confirm(0), lambda item: services.reserve_inside([new_purchase(item)])],
    ids=["confirm", "reserve_inside"],
)
def test_services_refuse_to_run_without_a_transaction(call, stock):
    with pytest.raises(transaction.TransactionManagementError):
        call(stock(1))


def test_release_of_no_reservation_does_nothing():
    assert release() == []
    assert release(2**40) == []


def test_reservation_is_due_after_its_deadline(stock):
    item = stock(5)
    bought = new_purchase(item)
    mine, other = sell(bought).reservation, reserve(item)
    Reservation.objects.filter(pk=mine).update(deadline="2020-01-01T00:00Z")
    assert services.due() == services.due_of([other, mine]) == [mine]
    assert services.due_of([other]) == []
    assert [due.reservation for due in release(mine, other, only_due=True)] == [mine]
    assert (services.due(), services.may_come_back(item)) == ([], True)
    release(other)
    assert not services.may_come_back(item)
    assert services.find(bought) == Granted(bought, mine, replayed=True)
    assert services.find(new_purchase(item)) is None


# --- partial release, write-off, reclaim --------------------------------------------------------


def reclaim(*reservations: int) -> None:
    with transaction.atomic(), services.reclaiming(reservations):
        pass


def test_release_of_a_part_keeps_the_rest(stock):
    item = stock(5)
    mine = reserve(item, 1, 3)
    assert release(mine, units=1) == [services.Released(mine, item, 1, 1)]
    assert (book(item).available, book(item).held) == (3, 2)
    assert BuyerQuota.objects.get(buyer=1).used == 2
    assert release(mine, units=3) == [], "no more than there is"
    assert release(mine, units=2) == [services.Released(mine, item, 1, 2)]
    assert (book(item).available, book(item).held) == (5, 0)
    assert Reservation.objects.get(pk=mine).state == State.RELEASED
    assert release(mine, units=1) == []


def test_releases_of_parts_never_exceed_the_reservation(stock):
    item = stock(10)
    mine = reserve(item, 1, 7)
    answers = at_once([partial(release, mine, units=2) for _ in range(8)])
    assert sum(len(answer) for answer in answers) == 3
    assert (book(item).available, book(item).held) == (9, 1)


def test_written_off_units_leave_the_total_and_are_not_sold(stock):
    item = stock(5)
    mine, other = reserve(item, 1, 3), reserve(item, 2, 2)
    assert len(release(mine, other, written_off=[mine])) == 2
    assert (book(item).total, book(item).available, book(item).ledger) == (2, 2, 2)
    moved = StockMovement.objects.filter(item=item).order_by("pk").values_list("delta", "reason")
    assert list(moved)[-3:] == [(3, "release"), (-3, "write_off"), (2, "release")]
    assert BuyerQuota.objects.get(buyer=1).used == 0


def test_released_units_are_taken_again_while_some_are_left(stock):
    item = stock(1)
    mine = reserve(item)
    release(mine)
    reclaim(mine)
    assert (book(item).available, book(item).confirmed) == (0, 1)
    assert BuyerQuota.objects.get(buyer=1).used == 1
    with pytest.raises(services.NotReclaimable):
        reclaim(mine)


def test_units_are_not_taken_again_beyond_the_buyers_limit(stock):
    item = stock(5)
    granted = sell(new_purchase(item, 1, limit=1))
    release(granted.reservation)
    sell(new_purchase(item, 1, limit=1))
    with pytest.raises(services.NotReclaimable):
        reclaim(granted.reservation)
    assert (book(item).held, book(item).confirmed) == (1, 0)


def test_reservations_taken_again_together_are_taken_all_or_none(stock):
    items = [stock(1), stock(1)]
    mine = [reserve(item) for item in items]
    release(*mine)
    reserve(items[1], 2)
    with pytest.raises(services.NotReclaimable):
        reclaim(*mine)
    assert [book(item).available for item in items] == [1, 0]


def test_reclaim_of_the_same_units_succeeds_once(stock):
    item = stock(3)
    mine = reserve(item)
    release(mine)
    answers = at_once([partial(reclaim, mine) for _ in range(8)])
    assert sum(answer is None for answer in answers) == 1
    assert (book(item).available, book(item).confirmed) == (2, 1)


# --- inside the caller's transaction ------------------------------------------------------------


def test_reserve_inside_reserves_all_lines_or_none(stock):
    phone, case = stock(5), stock(1)
    lines = [new_purchase(phone, 1, 2), new_purchase(case, 1)]
    with transaction.atomic():
        assert len(services.reserve_inside(lines)) == 2
    again = [new_purchase(phone, 2, 2), new_purchase(case, 2)]
    with pytest.raises(services.NotReserved) as caught, transaction.atomic():
        services.reserve_inside(again)
    assert caught.value.refused == LineRefused(1, SoldOut(0))
    assert [book(item).available for item in (phone, case)] == [3, 0]
    assert audit([phone, case]).balanced


def test_reserve_inside_is_rolled_back_with_its_caller(stock):
    item = stock(5)
    with transaction.atomic():
        services.reserve_inside([new_purchase(item)])
        transaction.set_rollback(True)
    assert (book(item).available, Reservation.objects.count()) == (5, 0)


def test_reserve_inside_and_purchases_sell_exactly_the_stock(stock):
    item = stock(30)

    def check_out(buyer: int) -> bool:
        try:
            with transaction.atomic():
                services.reserve_inside([new_purchase(item, buyer)])
        except services.NotReserved:
            return False
        return True

    def buy(buyer: int) -> bool:
        return isinstance(services.reserve(new_purchase(item, buyer), open_nothing), Granted)

    answers = at_once([partial(check_out if n % 2 else buy, n) for n in range(1, 61)])
    assert sum(answers) == 30
    assert (book(item).available, Reservation.objects.count()) == (0, 30)
    assert audit([item]).balanced


def test_units_that_are_written_off_leave_total_and_ledger(stock):
    item = stock(5)
    reserve(item, 1, 2)
    services.write_off(item, 3)
    assert (book(item).total, book(item).available) == (2, 0)
    with pytest.raises(guard.OutOfStock):
        services.write_off(item, 1)
    with pytest.raises(NoSuchItem):
        services.write_off(0, 1)
    assert audit([item]).balanced
