"""The tests of inventory's seller under races and cuts, with all strategies fast enough."""

from __future__ import annotations

import pytest

from inventory.tests.test_crash import (
    test_a_cut_at_the_commit_is_never_answered_as_a_failure,
    test_a_session_terminated_in_the_middle_of_a_batch_is_tried_again,
)
from inventory.tests.test_seller import (
    test_a_lowered_limit_refuses_and_does_not_fail,
    test_concurrent_requests_of_a_buyer_get_no_more_than_the_limit,
    test_items_do_not_take_each_others_units,
    test_quantities_that_do_not_divide_the_stock_leave_only_the_remainder,
)
from inventory.tests.test_seller_replays import (
    test_a_purchase_that_cannot_be_opened_fails_alone,
    test_the_same_key_at_once_for_different_quantities_is_sold_once,
    test_the_same_key_many_times_at_once_is_one_purchase,
)
from lab.strategies.tests.helpers import FAST

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("by", FAST, indirect=True),
    pytest.mark.usefixtures("by"),
]

__all__ = [
    "test_a_cut_at_the_commit_is_never_answered_as_a_failure",
    "test_a_lowered_limit_refuses_and_does_not_fail",
    "test_a_purchase_that_cannot_be_opened_fails_alone",
    "test_a_session_terminated_in_the_middle_of_a_batch_is_tried_again",
    "test_concurrent_requests_of_a_buyer_get_no_more_than_the_limit",
    "test_items_do_not_take_each_others_units",
    "test_quantities_that_do_not_divide_the_stock_leave_only_the_remainder",
    "test_the_same_key_at_once_for_different_quantities_is_sold_once",
    "test_the_same_key_many_times_at_once_is_one_purchase",
]
