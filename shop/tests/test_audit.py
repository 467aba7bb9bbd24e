"""What the audit finds, and the alerts that it raises."""

from __future__ import annotations

import pytest

from inventory.models import OutboxMessage
from shop import payments
from shop.audit import money
from shop.audit.money import Ours, Theirs
from shop.audit.report import Alert, Report, examine, mismatches, raise_alerts
from shop.background.repair import repair
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order, sent

pytestmark = pytest.mark.django_db(transaction=True)


def test_audit_has_one_alert_per_order_with_changing_figures():
    said = ["order 7 is paid, but 3 units are held", "order 8 is paid, but 3 units are held"]
    assert raise_alerts(Report(problems=said, overdue=["2 mails wait"])) == 3
    opened = set(Alert.objects.values_list("pk", flat=True))
    later = ["order 7 is paid, but 2 units are held", said[1]]
    assert raise_alerts(Report(problems=later, overdue=["5 mails wait"])) == 3
    assert set(Alert.objects.values_list("pk", flat=True)) == opened
    texts = Alert.objects.values_list("text", flat=True)
    assert set(texts) == {*later, "5 mails wait"}


def test_alerts_close_too_with_a_provider_that_lists_no_ledger():
    order = an_order(a_sale())
    payments.pay(order)
    for status, is_wrong in (("cancelled", True), ("paid", False)):
        Order.objects.filter(pk=order.pk).update(status=status)
        assert bool(raise_alerts(examine())) == is_wrong


OURS = Ours(3, 7, "pi_1", "captured", "CNY", amount=1_000, back=400, on_the_way=0)


def test_audit_finds_a_refund_that_only_one_side_knows():
    def found(refunded: int) -> list[str]:
        theirs = {"pi_1": Theirs(7, "CNY", captured=1_000, refunded=refunded)}
        missing = money._not_at_the_provider({"pi_1": OURS}, theirs)
        return [*missing, *money._not_here({"pi_1": OURS}, theirs, unknown_too=True)]

    assert found(400) == []
    [problem] = found(300)
    assert problem.startswith("payment 3 of order 7: 4.00 CNY went back")
    [problem] = found(500)
    assert problem.endswith("has taken 10.00 CNY and given back 5.00 CNY")


@pytest.mark.parametrize(
    ("paid", "status"),
    [
        *((False, each) for each in ("paid", "fulfilled", "cancelled", "expired", "refunded")),
        *((True, each) for each in ("awaiting_payment", "cancelled", "refund_pending")),
    ],
)
def test_audit_finds_units_that_do_not_fit_the_orders_state(paid, status):
    order = an_order(a_sale())
    if paid:
        payments.pay(order)
    assert mismatches() == []
    Order.objects.filter(pk=order.pk).update(status=status)
    [mismatch] = mismatches()
    assert mismatch.startswith(f"order {order.pk} is {status}")


@pytest.mark.parametrize("wrong", ["buyer", "sale", "quantity"])
def test_audit_finds_an_order_that_does_not_fit_its_units(wrong):
    order = an_order(a_sale())
    if wrong == "buyer":
        Order.objects.filter(pk=order.pk).update(buyer=a_buyer())
    elif wrong == "sale":
        order.lines.update(sale=a_sale())
    else:
        order.lines.update(quantity=2)
    assert len(mismatches()) == 1


def test_audit_reports_a_dead_message_and_repair_makes_it_due():
    order = an_order(a_sale())
    OutboxMessage.objects.update(dead="2020-01-01T00:00Z", attempts=20)
    assert examine().overdue == ["1 messages of the outbox are dead"]
    assert "made 1 messages due that were put off or dead" in list(repair())
    assert examine().overdue == []
    assert sent(order)
