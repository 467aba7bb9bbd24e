"""The audit finds contradictions, reports and repairs overdue work, opens and closes alerts."""

from __future__ import annotations

import json
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.urls import reverse

from inventory.models import Item, OutboxMessage, Reservation
from shop import orders, payments
from shop.audit import Report, examine, raise_alerts
from shop.audit.report import Alert
from shop.background import tasks
from shop.background.repair import repair
from shop.orders.models import Order
from shop.payments.models import Payment, Refund
from shop.payments.provider import provider
from shop.tests.catalogue import a_sale, an_order, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("psp")]


def paid() -> Order:
    order = an_order(a_sale())
    payments.pay(order)
    order.refresh_from_db()
    assert order.status == "paid"
    return order


def at_the_provider(order: Order) -> str:
    """Capture money that the shop does not know of; return the intent."""
    intent = provider().create_intent(
        order=order.pk, amount=order.amount, currency="CNY", key=str(uuid4())
    )
    provider().capture(intent.id, key=str(uuid4()))
    return intent.id


def unsettled(order: Order, state: str = "pending") -> Payment:
    """Record a payment whose capture at the provider the shop has missed."""
    return Payment.objects.create(
        order=order,
        key="key",
        intent=at_the_provider(order),
        amount=order.amount,
        state=state,
        not_before="2100-01-01T00:00Z",
    )


def test_a_shop_with_orders_in_every_state_fits_together():
    an_order(a_sale())
    orders.cancel(an_order(a_sale()))
    payments.refund(paid())
    paid()
    expired = an_order(a_sale())
    Reservation.objects.filter(orderline__order=expired).update(deadline="2020-01-01T00:00Z")
    orders.expire()
    report = examine()
    assert (report.problems, report.overdue, report.unchecked) == ([], [], [])
    assert len(report.items) == 5


def test_money_that_only_one_side_knows_or_in_another_currency_is_found(psp):
    order = paid()
    payment = f"payment {Payment.objects.get().pk} of order {order.pk}"
    Payment.objects.update(state="failed")
    text = " ".join(examine().problems)
    assert f"order {order.pk} is paid and worth 999.00 CNY, but 0.00 CNY was taken" in text
    Payment.objects.update(state="captured")
    Order.objects.update(currency="EUR")
    assert examine().problems == [f"{payment} is in EUR here, and in CNY at the provider"]
    Order.objects.update(currency="CNY")
    psp.forget()
    assert examine().problems == [
        f"{payment} is captured over 999.00 CNY here, and over 0.00 CNY at the provider"
    ]
    other = an_order(a_sale())
    intent = at_the_provider(other)
    assert (
        f"the provider took 999.00 CNY for order {other.pk}, "
        f"of which the shop knows no payment ({intent})"
    ) in examine().problems


def test_a_payment_that_is_still_being_asked_about_is_no_contradiction():
    order = an_order(a_sale())
    unsettled(order)
    assert examine().problems == []


def test_a_captured_payment_that_the_shop_took_for_failed_is_found_and_recovered():
    order = an_order(a_sale())
    payment = unsettled(order, "failed")
    [problem] = examine().problems
    assert problem == (
        f"payment {payment.pk} of order {order.pk} is failed here, 0.00 CNY back; "
        "the provider has taken 999.00 CNY and given back 0.00 CNY"
    )
    assert f"recorded the provider's state of order {order.pk}" in list(repair())
    order.refresh_from_db()
    assert order.status == "paid"
    assert examine().problems == []


def test_a_provider_that_does_not_answer_is_not_said_to_agree(settings):
    order = paid()
    settings.PSP_URL = "http://127.0.0.1:9"
    report = examine()
    assert report.balanced
    assert len(report.unchecked) == 1
    assert "provider's ledger" in report.unchecked[0]
    assert order.status == "paid"


def test_what_is_late_is_said_and_repaired():
    order = an_order(a_sale())
    Reservation.objects.update(deadline="2020-01-01T00:00Z")
    OutboxMessage.objects.update(dead="2020-01-01T00:00Z", attempts=20)
    other = an_order(a_sale())
    payment = unsettled(other)
    Payment.objects.update(created="2020-01-01T00:00Z")
    report = examine()
    assert report.balanced
    assert report.overdue == [
        "1 reservations are held past their deadline",
        "1 payments have been pending for too long",
        "1 messages of the outbox are dead",
    ]
    done = list(repair())
    assert done[:3] == [
        "expired 1 orders past their deadline",
        "asked the provider about 1 payments and refunds; 0 are still pending",
        "made 1 messages due that were put off or dead",
    ]
    assert done[-1] == "0 messages are not done yet"
    assert examine().overdue == []
    assert Order.objects.get(pk=order.pk).status == "expired"
    assert Order.objects.get(pk=other.pk).status == "paid"
    assert Payment.objects.get(pk=payment.pk).state == "captured"
    assert sent(order)
    assert sent(order, "expired")


def test_repairing_what_is_right_changes_nothing():
    order = paid()
    before = list(Item.objects.values_list("pk", "available", "reserved"))
    for _ in range(2):
        list(repair())
    assert list(Item.objects.values_list("pk", "available", "reserved")) == before
    assert Order.objects.get(pk=order.pk).status == "paid"
    assert Refund.objects.count() == 0


def test_the_command_prints_one_document_and_its_exit_code_says_whether_all_fits():
    order = an_order(a_sale())
    output = StringIO()
    call_command("audit", "--json", "--sale", order.sale_id, stdout=output)
    document = json.loads(output.getvalue())
    assert list(document)[:3] == ["balanced", "items", "problems"]
    assert (document["balanced"], document["problems"]) == (True, [])
    assert [item["held"] for item in document["items"]] == [1]
    at_the_provider(order)
    with pytest.raises(SystemExit) as wrong:
        call_command("audit", "--json", "--repair", stdout=StringIO())
    assert wrong.value.code == 1, "unknown money is still reported"


def test_of_one_sale_only_its_own_money_is_judged():
    strange, own = an_order(a_sale()), an_order(a_sale())
    at_the_provider(strange)
    item = own.lines.get().sale.item_id
    assert examine([item]).problems == []
    assert len(examine([item]).items) == 1


# --- alerts ----------------------------------------------------------------------------------


def test_an_alert_is_open_once_while_its_problem_lasts_and_then_closed(admin_client):
    def found(*problems: str) -> Report:
        return Report(problems=list(problems))

    assert raise_alerts(found("item 7: 3 of 5 are lost", "item 8: 1 of 5 is lost")) == 2
    assert raise_alerts(found("item 7: 4 of 5 are lost")) == 1
    alert = Alert.objects.get(closed=None)
    assert alert.text == "item 7: 4 of 5 are lost"
    assert alert.seen > alert.opened
    shown = admin_client.get(reverse("admin:shop_alert_changelist")).content.decode()
    assert "item 7: 4 of 5 are lost" in shown
    assert raise_alerts(Report(unchecked=["the provider does not answer"])) == 1, "unknown"
    assert raise_alerts(found()) == 0
    assert raise_alerts(found("item 7: 1 of 5 are lost")) == 1
    assert Alert.objects.count() == 3


def test_the_job_of_beat_raises_an_alert_and_closes_it_when_the_message_went_through():
    an_order(a_sale())
    OutboxMessage.objects.update(dead="2020-01-01T00:00Z")
    assert tasks.audit() == 1
    assert Alert.objects.get().text == "1 messages of the outbox are dead"
    list(repair())
    assert tasks.audit() == 0
    assert Alert.objects.get().closed is not None
