"""Further quotas of a purchase, such as one per address: counted, given back, taken again."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from inventory import services
from inventory.audit import audit
from inventory.models import BuyerQuota, Reservation
from inventory.outcomes import Granted, LimitReached, Outcome, Purchase, Quota, SoldOut
from inventory.tests.helpers import at_once, book, kinds, new_purchase, open_nothing

pytestmark = pytest.mark.django_db(transaction=True)

HOME = Quota.named("address", 1, "1 Main Street", limit=1)
"""One unit per address, also for different buyers."""


def sent_home(item: int, quantity: int = 1, **other: Any) -> Purchase:
    return new_purchase(item, quantity=quantity, quotas=(HOME,), **other)


def buy(purchase: Purchase) -> Outcome:
    return services.reserve(purchase, open_nothing)


def granted(outcome: Outcome) -> Granted:
    assert isinstance(outcome, Granted)
    return outcome


def release(*reservations: int, units: int | None = None) -> None:
    with services.releasing(reservations, units=units):
        pass


def reclaim(reservation: int) -> None:
    with transaction.atomic(), services.reclaiming([reservation]):
        pass


def used(quota: Quota) -> int:
    return BuyerQuota.objects.get(scope=quota.scope, buyer=quota.subject).used


def test_named_quota_is_never_a_sale_or_buyer():
    other = Quota.named("address", 1, "2 Main Street", limit=1)
    assert HOME.scope == other.scope < 0
    assert HOME.subject < 0
    assert HOME.subject != other.subject
    assert Quota.named("address", 1, "1 Main Street", limit=1) == HOME
    assert Quota.named("address", 2, "1 Main Street", limit=1).scope != HOME.scope


def test_quota_limits_several_buyers_together(stock):
    item = stock(5)
    granted(buy(sent_home(item)))
    assert buy(sent_home(item)) == LimitReached(0)
    granted(buy(new_purchase(item)))
    assert (book(item).held, used(HOME)) == (2, 1)
    assert audit([item]).balanced


def test_quota_and_buyers_limit_must_both_allow(stock):
    item = stock(5)
    wide = Quota.named("address", 1, "1 Main Street", limit=4)
    purchase = new_purchase(item, 7, 2, limit=2, quotas=(wide,))
    granted(buy(purchase))
    assert buy(new_purchase(item, 7, 1, limit=2, quotas=(wide,))) == LimitReached(0)
    assert buy(new_purchase(item, 8, 3, limit=5, quotas=(wide,))) == LimitReached(2)
    assert (book(item).held, used(wide)) == (2, 2)


def test_quota_counts_items_of_one_product_together(stock):
    """Three sizes have stock of their own, and a limit together."""
    small, medium, large = stock(1), stock(1), stock(0)
    of_all = Quota.named("product", 1, 7, limit=2)
    sizes = partial(new_purchase, buyer=7, limit=5, quotas=(of_all,))
    assert buy(sizes(large)) == SoldOut(0)
    for size in (small, medium):
        granted(buy(sizes(size)))
    services.restock(large, 1)
    assert buy(sizes(large)) == LimitReached(0)
    assert audit([large]).balanced


def test_cart_counts_a_quota_over_all_lines(stock):
    lines = [sent_home(stock(5), buyer=1), sent_home(stock(5), buyer=1)]
    refused = services.reserve_many(lines, open_nothing)
    assert not isinstance(refused, list)
    assert refused.outcome == LimitReached(0)
    assert Reservation.objects.count() == 0


def test_quota_at_once_is_never_exceeded_over_several_items(stock):
    items = [stock(20), stock(20)]
    answers = at_once([partial(buy, sent_home(items[n % 2])) for n in range(30)])
    assert kinds(answers) == {"Granted": 1, "LimitReached": 29}
    assert used(HOME) == 1
    assert audit(items).balanced


def test_release_gives_the_quota_back_exactly_once(stock):
    item = stock(5)
    first = granted(buy(sent_home(item)))
    for _ in range(2):
        release(first.reservation)
    assert used(HOME) == 0
    granted(buy(sent_home(item)))
    assert buy(sent_home(item)) == LimitReached(0)
    assert audit([item]).balanced


def test_release_of_a_part_gives_that_part_back(stock):
    item = stock(5)
    wide = Quota.named("address", 1, "1 Main Street", limit=4)
    first = granted(buy(new_purchase(item, quantity=3, quotas=(wide,))))
    release(first.reservation, units=1)
    assert used(wide) == 2
    assert audit([item]).balanced


def test_reclaim_needs_the_quota_again(stock):
    item = stock(5)
    late = granted(buy(sent_home(item)))
    release(late.reservation)
    other = granted(buy(sent_home(item)))
    with pytest.raises(services.NotReclaimable):
        reclaim(late.reservation)
    release(other.reservation)
    reclaim(late.reservation)
    assert (used(HOME), book(item).confirmed) == (1, 1)
    assert audit([item]).balanced


def test_repeat_of_a_key_uses_no_quota(stock):
    item = stock(5)
    purchase = sent_home(item, hold=timedelta(minutes=1))
    first, again = granted(buy(purchase)), granted(buy(purchase))
    assert (again.reservation, again.replayed, used(HOME)) == (first.reservation, True, 1)


def test_audit_finds_a_quota_that_is_not_given_back(stock):
    item = stock(5)
    granted(buy(sent_home(item)))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM inventory_reservationquota")
    [problem] = audit().problems
    assert f"scope {HOME.scope}" in problem
