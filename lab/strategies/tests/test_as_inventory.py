"""The tests of inventory's seller, with the strategies of the lab that never oversell."""

from __future__ import annotations

import pytest

from inventory.tests import test_processes, test_seller
from lab.strategies import CLASSES

SAFE = [name for name, kind in CLASSES.items() if kind.safe]

FAST = [name for name in SAFE if name != "redis_lock"]
"""Strategies whose buyers need not poll for a lock: for tests with many of them at once."""

STRATEGIES = {
    test_seller.test_a_purchase_over_the_limit_is_told_what_is_left_and_takes_nothing: SAFE,
    test_seller.test_a_grant_is_committed_before_it_is_answered: SAFE,
    test_seller.test_a_key_for_another_quantity_item_or_scope_is_told_reused: SAFE,
    test_seller.test_a_key_is_replayed_before_and_after_it_is_sold_out: SAFE,
    test_seller.test_a_key_of_a_released_reservation_is_replayed_and_takes_nothing: SAFE,
    test_seller.test_a_refused_key_may_buy_later: SAFE,
    test_seller.test_an_unknown_item_is_an_error: SAFE,
    test_processes.test_a_cut_at_the_commit_is_never_answered_as_a_failure: FAST,
    test_processes.test_a_session_terminated_in_the_middle_of_a_batch_is_tried_again: FAST,
    test_seller.test_concurrent_requests_of_a_buyer_get_no_more_than_the_limit: FAST,
    test_seller.test_items_do_not_take_each_others_units: FAST,
    test_seller.test_quantities_that_do_not_divide_the_stock_leave_only_the_remainder: FAST,
    test_seller.test_a_purchase_that_cannot_be_opened_fails_alone: FAST,
    test_seller.test_a_key_at_once_for_different_quantities_is_one_purchase_of_one_of_them: FAST,
    # These need no lock.
    test_processes.test_two_processes_without_the_lock_sell_exactly_what_there_is: [
        *("combining", "guard", "row_lock")
    ],
}
"""Strategies by test."""

globals().update({test.__name__: test for test in STRATEGIES})

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("by")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("by", STRATEGIES[metafunc.function], indirect=True)
