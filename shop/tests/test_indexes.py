"""What runs every second, or for every visitor, reads an index and no whole table.

The planner may not read whole tables here, so that it uses an index wherever there is one for the
query, however few rows there are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from inventory import outbox, services
from shop.accounts.models import User
from shop.mails.sending import QUEUE
from shop.orders.models import Order
from shop.pages.sales import Listed
from shop.payments import recovery
from shop.payments.models import Payment

pytestmark = pytest.mark.django_db(transaction=True)

CALLS: dict[str, Callable[[], object]] = {
    "inventory_reservation_due": services.due,
    "inventory_outbox_todo": lambda: outbox.upcoming(QUEUE, 10),
    "inventory_outbox_todo of the next": lambda: outbox._next(""),
    "shop_payment_todo": recovery.settle,
    "shop_refund_todo": recovery.settle,
    "shop_payment_one_per_intent": lambda: Payment.objects.filter(intent="pi_1").first(),
    "shop_order_buyer_id": lambda: list(Order.objects.filter(buyer=1).order_by("-pk")[:10]),
    "shop_sale_listed_by_end": lambda: list(Listed()._over[:10]),
    "accounts_user_email_upper": lambda: list(User.objects.filter(email__iexact="a@example.com")),
}
"""What reads, by the index that it reads."""


def plans(call: Callable[[], object]) -> str:
    """Return how the server reads for each query of a call."""
    with transaction.atomic(), connection.cursor() as cursor:
        with CaptureQueriesContext(connection) as queries:
            call()
        cursor.execute("SET LOCAL enable_seqscan = off")
        lines: list[str] = []
        for query in queries.captured_queries:
            if query["sql"].startswith("SELECT"):
                cursor.execute("EXPLAIN " + query["sql"])
                lines += [line for (line,) in cursor.fetchall()]
    return "\n".join(lines)


@pytest.mark.parametrize("index", CALLS)
def test_query_reads_its_index(index: str) -> None:
    plan = plans(CALLS[index])
    assert index.split(" ")[0] in plan, plan
    assert "Seq Scan" not in plan, plan
