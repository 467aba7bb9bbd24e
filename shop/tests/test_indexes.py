"""The indexes of what runs every second, or for every visitor, are there.

Whether the planner uses one depends on how many rows there are, so the plan itself is no test.
"""

from __future__ import annotations

import pytest
from django.db import connection

pytestmark = pytest.mark.django_db

INDEXES = {
    "inventory_reservation_due": "the sweep of held units whose time is over",
    "inventory_outbox_todo": "messages that are not done, and the next one of a queue",
    "shop_payment_todo": "payments without a result",
    "shop_refund_todo": "refunds without a result",
    "shop_payment_one_per_intent": "the payment that a webhook names",
    "shop_order_buyer_id": "a buyer's orders",
    "shop_sale_listed_by_end": "the home page",
    "accounts_user_email_upper": "the accounts of an address",
}
"""What reads each, by the beginning of its name."""


@pytest.mark.parametrize("index", INDEXES)
def test_index_is_there(index: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid "
            "WHERE starts_with(relname, %s) AND indisvalid",
            [index],
        )
        assert cursor.fetchone()[0] >= 1, f"no index for {INDEXES[index]}"
