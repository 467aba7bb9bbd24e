"""Numbers of invoices and credit notes: without gaps, whatever happens at once or rolls back."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test import Client

from shop import payments
from shop.audit import examine
from shop.orders import Part
from shop.orders.invoices import issue_credit_note, issue_invoices
from shop.orders.models import Invoice, InvoiceSeries, Order
from shop.orders.transitions import Step, take
from shop.payments import settlement
from shop.payments.models import Payment, Refund
from shop.payments.settlement import record_refund
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

INVOICE, CREDIT_NOTE = Invoice.Series.INVOICE, Invoice.Series.CREDIT_NOTE


def numbers(series: Invoice.Series) -> list[int]:
    rows = Invoice.objects.filter(series=series).order_by("number")
    return list(rows.values_list("number", flat=True))


def documents_of(order: Order) -> list[tuple[str, int]]:
    return list(order.invoices.values_list("series", "amount"))


def test_paid_order_gets_an_invoice_and_its_refund_a_credit_note(fake_provider: Any) -> None:
    first, second = (payments.pay(an_order(a_sale())) for _ in range(2))
    payments.refund(second)
    assert [str(invoice) for invoice in first.invoices.all()] == ["Invoice 1"]
    assert [str(invoice) for invoice in second.invoices.all()] == ["Invoice 2", "Credit note 1"]
    assert documents_of(second) == [(INVOICE, 99_900), (CREDIT_NOTE, 99_900)]
    assert examine().problems == []


def test_credit_note_is_made_for_each_refunded_part(fake_provider: Any) -> None:
    order = payments.pay(an_order(a_sale(limit=3, price=100), quantity=3))
    payments.refund(order, Part(2, uuid4()))
    payments.refund(order, Part(1, uuid4()))
    assert documents_of(order) == [(INVOICE, 300), (CREDIT_NOTE, 200), (CREDIT_NOTE, 100)]
    assert examine().problems == []


def test_free_order_gets_no_invoice() -> None:
    assert an_order(a_sale(price=0)).status == Order.Status.PAID
    assert not Invoice.objects.exists()


def test_invoice_and_credit_note_work_without_payments(settings: Any) -> None:
    settings.PAYMENT_PROVIDER = ""
    order = payments.pay(an_order(a_sale()))
    payments.refund(order)
    assert documents_of(order) == [(INVOICE, 99_900), (CREDIT_NOTE, 99_900)]


def test_shop_without_invoices_draws_no_numbers(fake_provider: Any, settings: Any) -> None:
    settings.INVOICES = False
    payments.refund(payments.pay(an_order(a_sale())))
    assert not Invoice.objects.exists()
    assert examine().problems == []


def test_credit_note_needs_an_invoice(fake_provider: Any, settings: Any) -> None:
    settings.INVOICES = False
    order = payments.pay(an_order(a_sale()))
    settings.INVOICES = True
    payments.refund(order)
    assert not Invoice.objects.exists()
    assert examine().problems == []


def test_credit_note_is_not_made_for_a_late_payment(fake_provider: Any) -> None:
    order = payments.pay(an_order(a_sale()))
    payment = Payment.objects.create(
        order=order,
        key="again",
        intent="again",
        amount=5,
        state="captured",
        not_before=order.created,
    )
    with transaction.atomic():
        settlement.mark_refund_succeeded(
            record_refund(payment, 5, Refund.Reason.TOO_LATE, "too-late")
        )
    assert documents_of(order) == [(INVOICE, 99_900)]


def test_refund_that_succeeds_twice_has_one_credit_note(fake_provider: Any) -> None:
    order = payments.pay(an_order(a_sale()))
    for _ in range(2):
        issue_credit_note(order.pk, 99_900, "refund-1")
    assert numbers(CREDIT_NOTE) == [1]


def test_invoice_numbers_have_no_gap_when_many_pay_at_once() -> None:
    """Half of the transactions draw a number and roll back."""
    sale = a_sale(stock=60)
    orders = [an_order(sale).pk for _ in range(60)]

    def pay(order: int) -> bool:
        try:
            with transaction.atomic():
                take(Step.PAY, [order])
                if order % 2:
                    raise RuntimeError("the payment is not recorded after all")
        except RuntimeError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(12) as threads:
        paid = sum(threads.map(pay, orders))
    assert 0 < paid < 60
    assert numbers(INVOICE) == list(range(1, paid + 1))
    assert InvoiceSeries.objects.get().last == paid
    assert Invoice.objects.values("order").distinct().count() == paid


def test_invoice_numbers_of_one_transaction_are_consecutive() -> None:
    sale = a_sale()
    orders = [an_order(sale, a_buyer()).pk for _ in range(3)]
    issue_invoices(orders)
    assert list(Invoice.objects.values_list("number", "order")) == list(enumerate(orders, 1))


def _delete(order: Order) -> None:
    Invoice.objects.filter(series=INVOICE, number=1).delete()


def _number_beyond(order: Order) -> None:
    Invoice.objects.filter(series=INVOICE, number=2).update(number=7)


def _no_series(order: Order) -> None:
    InvoiceSeries.objects.filter(name=INVOICE).delete()


def _credit_lost(order: Order) -> None:
    Invoice.objects.filter(series=CREDIT_NOTE).delete()
    InvoiceSeries.objects.filter(name=CREDIT_NOTE).delete()


def _credit_of_more(order: Order) -> None:
    Invoice.objects.filter(series=CREDIT_NOTE).update(amount=99_901)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_delete, ["2 numbers of the series invoice were drawn, and 1 are used; the first"]),
        (_number_beyond, ["2 numbers of the series invoice were drawn, and 2 are used; the first"]),
        (_no_series, ["0 numbers of the series invoice were drawn, and 2 are used; the first"]),
        (
            _credit_lost,
            ["order {} was paid with 999.00 CNY, of which 999.00 CNY were refunded; it"],
        ),
        (_credit_of_more, ["order {} was paid with 999.00 CNY, of which 999.00 CNY were refunded"]),
    ],
)
def test_audit_finds_what_is_wrong_with_invoices(
    fake_provider: Any, plant: Any, found: Sequence[str]
) -> None:
    payments.pay(an_order(a_sale()))
    order = payments.refund(payments.pay(an_order(a_sale())))
    plant(order)
    problems = examine().problems
    assert len(problems) == len(found)
    for problem, expected in zip(problems, found, strict=True):
        assert problem.startswith(expected.format(order.pk))


def test_page_of_the_order_shows_its_numbers(fake_provider: Any, client: Client) -> None:
    order = payments.refund(payments.pay(an_order(a_sale())))
    client.force_login(order.buyer)
    page = client.get(order.get_absolute_url()).text
    assert "Invoice 1" in page
    assert "Credit note 1" in page
