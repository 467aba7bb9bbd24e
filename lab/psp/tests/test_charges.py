"""An order's money, counted in the payment provider's ledger."""

from typing import Any

import pytest

from shop.orders.models import Order
from shop.payments.models import Refund
from shop.tests.processes import wait_for

Status = Order.Status

pytestmark = pytest.mark.django_db(transaction=True)


def status_of(order: int) -> str:
    return Order.objects.values_list("status", flat=True).get(pk=order)


def insist(buyer: Any, order: int, what: str, until: str) -> None:
    """Repeat the request until its outcome is known."""

    def there() -> bool:
        buyer.post(f"orders/{order}/{what}")
        return status_of(order) == until

    wait_for(there)


def test_lost_answers_charge_no_buyer_twice(psp, sale_of, ann):
    psp.behave(lost=0.5, seed=7)
    sale = sale_of(limit=10)
    bought = [ann.order(sale) for _ in range(8)]
    for order in bought:
        insist(ann, order, "payment", until=Status.PAID)
        assert psp.ledger(order) == [(order, "capture", 99900)]


def test_webhooks_alone_settle_what_the_provider_took_its_time_for(
    psp, live_server, sale, ann, bob
):
    psp.behave(
        webhook_url=f"{live_server.url}/api/v1/webhooks/psp", processing=100, copies=2, shuffle=200
    )
    order, declined = ann.order(sale), bob.order(sale)
    assert ann.post(f"orders/{order}/payment").status_code in {200, 202, 503}
    wait_for(lambda: status_of(order) == Status.PAID)
    ann.post(f"orders/{order}/refund")
    wait_for(lambda: status_of(order) == Status.REFUNDED)
    wait_for(psp.quiet)
    assert Refund.objects.get(payment__order=order).amount == 99_900
    assert psp.ledger(order, declined) == [(order, "capture", 99900), (order, "refund", 99900)]
