"""The tests of inventory's seller, with every strategy that never oversells."""

from __future__ import annotations

import pytest

from inventory.tests.test_seller import (
    test_a_buyer_at_the_limit_is_told_so_and_takes_nothing,
    test_a_purchase_larger_than_the_limit_is_refused_with_what_is_left_of_it,
    test_ten_units_sell_to_ten_and_the_eleventh_is_told_so,
)
from inventory.tests.test_seller_replays import (
    test_a_grant_is_committed_before_it_is_answered,
    test_a_key_for_another_quantity_item_or_scope_is_told_reused,
    test_a_key_is_replayed_before_and_after_it_is_sold_out,
    test_a_key_of_a_released_reservation_is_replayed_and_takes_nothing,
    test_a_refused_key_may_buy_later,
    test_an_unknown_item_is_an_error,
    test_the_answer_carries_what_was_opened,
)
from lab.strategies.tests.helpers import SAFE

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("by", SAFE, indirect=True),
    pytest.mark.usefixtures("by"),
]

__all__ = [
    "test_a_buyer_at_the_limit_is_told_so_and_takes_nothing",
    "test_a_grant_is_committed_before_it_is_answered",
    "test_a_key_for_another_quantity_item_or_scope_is_told_reused",
    "test_a_key_is_replayed_before_and_after_it_is_sold_out",
    "test_a_key_of_a_released_reservation_is_replayed_and_takes_nothing",
    "test_a_purchase_larger_than_the_limit_is_refused_with_what_is_left_of_it",
    "test_a_refused_key_may_buy_later",
    "test_an_unknown_item_is_an_error",
    "test_ten_units_sell_to_ten_and_the_eleventh_is_told_so",
    "test_the_answer_carries_what_was_opened",
]
