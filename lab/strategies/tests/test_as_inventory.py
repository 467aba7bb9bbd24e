"""The tests of inventory's seller, with the strategies of the lab that never oversell."""

from __future__ import annotations

import pytest

from inventory.tests import test_processes, test_seller
from lab.strategies import CLASSES

SAFE = [name for name, kind in CLASSES.items() if kind.safe]

FAST = [name for name in SAFE if name != "redis_lock"]
"""Strategies whose buyers need not poll for a lock: for tests with many of them at once."""

STRATEGIES = {
    test_seller.test_limit_refusal_names_what_is_left_and_takes_nothing: SAFE,
    test_seller.test_grant_is_committed_before_it_is_answered: SAFE,
    test_seller.test_key_for_another_quantity_item_or_scope_is_reused: SAFE,
    test_seller.test_key_is_replayed_before_and_after_the_item_is_sold_out: SAFE,
    test_seller.test_key_of_a_released_reservation_is_replayed: SAFE,
    test_seller.test_key_that_was_refused_may_buy_later: SAFE,
    test_seller.test_seller_raises_for_an_unknown_item: SAFE,
    test_processes.test_connection_cut_at_the_commit_is_not_a_failure: FAST,
    test_processes.test_batch_is_repeated_after_its_session_was_terminated: FAST,
    test_seller.test_limit_holds_for_concurrent_requests_of_a_buyer: FAST,
    test_seller.test_items_do_not_take_each_others_units: FAST,
    test_seller.test_seller_leaves_only_a_remainder_smaller_than_a_purchase: FAST,
    test_seller.test_purchase_that_cannot_be_opened_fails_alone: FAST,
    test_seller.test_key_used_at_once_for_two_quantities_buys_once: FAST,
    # These need no lock.
    test_processes.test_processes_without_the_lock_sell_exactly_the_stock: [
        "combining",
        "guard",
        "row_lock",
    ],
}
"""Strategies by test."""

globals().update({test.__name__: test for test in STRATEGIES})

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("by")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("by", STRATEGIES[metafunc.function], indirect=True)
