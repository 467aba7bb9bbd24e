"""Release and confirm: exactly once each, whoever asks and however often."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import transaction

from inventory import guard, services
from inventory.models import BuyerQuota, Reservation, StockMovement
from inventory.tests.helpers import at_once, book, open_nothing, wish

pytestmark = pytest.mark.django_db(transaction=True)

State = Reservation.State


def reserve(item: int, buyer: int = 1, quantity: int = 1) -> int:
    granted = services.reserve(wish(item, buyer, quantity), open_nothing)
    pk: int = granted.reservation  # type: ignore[union-attr]
    return pk


def release(*reservations: int, **how) -> list[services.Released]:
    return services.release(reservations, lambda released: None, **how)


def test_a_release_puts_units_and_allowance_back_exactly_once(stock):
    item = stock(5)
    mine = reserve(item, 1, 3)
    assert release(mine) == [services.Released(mine, item, 1, 3)]
    assert release(mine) == []
    assert (book(item).available, BuyerQuota.objects.get(buyer=1).used) == (5, 0)


def test_many_releases_of_the_same_reservations_at_once_put_back_once(stock):
    item = stock(20)
    mine = [reserve(item, n) for n in range(1, 11)]
    answers = at_once([partial(release, *mine) for _ in range(8)])
    assert sum(len(answer) for answer in answers) == 10
    assert book(item).available == 20


def test_a_generator_of_reservations_is_released_whole(stock):
    """It can be read once only, and is needed more than once."""
    item = stock(7)
    mine = [reserve(item, n) for n in range(1, 8)]
    released = services.release((pk for pk in mine), lambda rows: None)
    assert sorted(each.reservation for each in released) == mine
    assert book(item).available == 7


def test_releases_that_overlap_in_opposite_order_over_two_items_do_not_block_each_other(stock):
    items = [stock(20), stock(20)]
    mine = [reserve(items[n % 2], n) for n in range(20)]
    calls = [partial(release, *mine), partial(release, *reversed(mine))] * 3
    assert sum(len(answer) for answer in at_once(calls)) == 20
    assert [book(item).available for item in items] == [20, 20]


def test_one_release_of_an_item_is_one_movement(stock):
    item = stock(9)
    release(*[reserve(item, n) for n in range(1, 5)])
    assert list(
        StockMovement.objects.filter(item=item, reason="release").values_list("delta", flat=True)
    ) == [4]


def test_what_the_shop_cannot_follow_is_not_released(stock):
    item = stock(5)
    mine = reserve(item)

    def fail(released):
        raise ValueError("no order")

    with pytest.raises(ValueError, match="no order"):
        services.release([mine], fail)
    assert (book(item).held, BuyerQuota.objects.get(buyer=1).used) == (1, 1)


def test_a_confirmed_reservation_is_released_only_by_who_says_so(stock):
    item = stock(5)
    mine = reserve(item)
    with transaction.atomic():
        assert services.confirm(mine)
    assert release(mine) == []
    assert len(release(mine, was=State.CONFIRMED)) == 1
    assert book(item).available == 5


def test_a_reservation_is_confirmed_once_and_only_while_it_is_held(stock):
    item = stock(5)
    mine, gone = reserve(item, 1), reserve(item, 2)
    release(gone)
    with transaction.atomic():
        assert [services.confirm(mine), services.confirm(mine), services.confirm(gone)] == [
            True,
            False,
            False,
        ]
    assert (book(item).confirmed, book(item).held) == (1, 0)


def test_confirming_belongs_to_a_transaction(stock):
    with pytest.raises(transaction.TransactionManagementError):
        services.confirm(reserve(stock(1)))


def test_nothing_asked_is_nothing_released():
    assert release() == []
    assert release(2**40) == []


def test_a_restock_of_what_is_not_there_is_refused():
    with pytest.raises(guard.NoSuchItem):
        services.restock(0, 1)
