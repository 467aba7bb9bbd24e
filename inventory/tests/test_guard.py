"""The guard: one statement that decides and writes the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import IntegrityError, transaction

from inventory import services
from inventory.models import Item, Reservation, StockMovement
from inventory.outcomes import Granted, Level, NoSuchItem
from inventory.selling import guard
from inventory.selling.commit import ConditionFailed, execute_together
from inventory.tests.helpers import (
    at_once,
    book,
    books_not_enforced,
    kinds,
    new_purchase,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def item() -> Iterator[int]:
    """Ten units whose books may be unbalanced: the guard alone writes no reservations."""
    with books_not_enforced():
        yield services.stock("phone", 10).pk


def take(item: int, units: int, token: int | None = None) -> Level:
    """Take units as a batch does, which may have a token."""
    with transaction.atomic():
        wanted = guard.to_take({item: units}, guard.Reason.SALE, token)
        row = execute_together([(guard.TAKE_OR_FAIL, wanted)]).fetchone()
    assert row is not None
    _, [available], [version], _ = row
    return Level(available, version)


def state(item: int) -> tuple[int, int, int]:
    row = Item.objects.get(pk=item)
    return row.available, row.fence, StockMovement.objects.filter(item=item).count()


def test_it_takes_what_is_there_and_writes_the_movement(item):
    level = take(item, 4)
    assert level.available == 6
    assert StockMovement.objects.filter(item=item).latest("pk").delta == -4


def test_it_takes_the_last_units_exactly(item):
    assert take(item, 10).available == 0


def test_it_takes_nothing_when_too_little_is_there(item):
    take(item, 7)
    before = state(item)
    with pytest.raises(ConditionFailed):
        take(item, 4)
    with pytest.raises(guard.OutOfStock, match="only 3") as refused, transaction.atomic():
        guard.take(item, 4)
    assert refused.value.available == 3
    assert state(item) == before


def test_a_writer_with_a_stale_token_changes_no_row(item):
    take(item, 1, token=100)
    before = state(item)
    with pytest.raises(ConditionFailed):
        take(item, 1, token=99)
    assert state(item) == before


def test_the_same_token_and_a_newer_one_go_on_and_the_fence_only_rises(item):
    for token in (100, 100, 101):
        take(item, 1, token=token)
    assert state(item)[:2] == (7, 101)


def test_a_writer_without_the_lock_is_not_compared_and_leaves_the_fence(item):
    take(item, 1, token=100)
    take(item, 1)
    assert state(item)[:2] == (8, 100)


def test_stock_that_comes_back_needs_no_token_and_leaves_the_fence(item):
    take(item, 5, token=100)
    with transaction.atomic():
        guard.put_back(item, 5)
    assert state(item)[:2] == (10, 100)


def test_every_change_has_its_own_number(item):
    levels = [take(item, 1), take(item, 1)]
    with transaction.atomic():
        levels.append(guard.put_back(item, 1))
    levels.append(services.restock(item, 1))
    versions = [level.version for level in levels]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("units", [0, -1])
@pytest.mark.parametrize("move", [guard.take, guard.put_back, guard.restock])
def test_it_moves_at_least_one_unit(move, units, item):
    with pytest.raises(ValueError, match="at least one"), transaction.atomic():
        move(item, units)
    assert state(item)[0] == 10


@pytest.mark.parametrize("move", [guard.take, guard.put_back, guard.restock])
def test_an_unknown_item_is_an_error(move):
    with pytest.raises(NoSuchItem), transaction.atomic():
        move(0, 1)


@pytest.mark.parametrize("move", [guard.take, guard.put_back, guard.restock])
def test_it_refuses_to_run_outside_a_transaction(move, item):
    with pytest.raises(transaction.TransactionManagementError):
        move(item, 1)
    assert state(item)[0] == 10


def test_of_fifty_concurrent_takers_exactly_ten_get_one(item):
    answers = at_once([partial(take, item, 1)] * 50)
    assert kinds(answers) == {"Level": 10, "ConditionFailed": 40}
    assert sorted(level.available for level in answers if isinstance(level, Level)) == list(
        range(10)
    )
    assert state(item)[0] == 0


@pytest.mark.parametrize(
    ("others", "refused"), [(0, "the ledger says"), (2, "is not total")], ids=["alone", "held too"]
)
def test_units_that_are_put_back_twice_are_refused_at_the_commit(others, refused):
    """Although available never exceeds the total."""
    item = services.stock("phone", 5).pk
    mine = sell(new_purchase(item, quantity=2))
    assert isinstance(mine, Granted)
    if others:
        sell(new_purchase(item, quantity=others))
    before = book(item)

    def release_with_doubled_units() -> None:
        with transaction.atomic():
            Reservation.objects.filter(pk=mine.reservation).update(state="released")
            guard.put_back(item, 2)
            guard.put_back(item, 2)

    with pytest.raises(IntegrityError, match=refused):
        release_with_doubled_units()
    assert book(item) == before
