"""Orders and payments: locks held by sessions, crowds, crashes, webhook events, and no answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from inventory import services
from inventory.models import Item, OutboxMessage, StockMovement
from inventory.tests.helpers import (
    at_once,
    book,
    in_thread,
    kinds,
    outsider,
    wait_until_blocked,
)
from shop import orders, payments
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.orders import WrongState
from shop.orders.models import Order
from shop.payments import paying, recovery, settlement
from shop.payments.models import Payment, Refund
from shop.payments.provider import PaymentUnknown
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.money import (
    check,
    come_to_rest,
    deliver,
    make_due,
    paid,
    status,
    sweep,
)
from shop.tests.provider import Crash, FakeProvider, crash_at, lost

pytestmark = pytest.mark.django_db(transaction=True)


Status = Order.Status


@pytest.fixture
def sale(fake_provider: FakeProvider) -> Iterator[Sale]:
    """Ten units at 999.00 CNY, three per buyer; orders and money must agree in the end."""
    made = a_sale(limit=3)
    yield made
    check(made, fake_provider)


def test_webhook_event_during_a_second_request_is_its_answer(sale, fake_provider, monkeypatch):
    fake_provider.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    read, events = Order.refresh_from_db, [fake_provider]

    def read_after_an_event(order: Order, fields: Sequence[str] | None = None) -> None:
        read(order, fields=fields)
        while events:
            deliver(events.pop())

    monkeypatch.setattr(Order, "refresh_from_db", read_after_an_event)
    assert payments.pay(mine).status == Status.PAID


def test_database_limits_pending_payments_and_refunds(sale):
    mine = paid(sale)
    payment = Payment.objects.get(order=mine)
    other = an_order(sale)
    Payment.objects.create(order=other, key="one", amount=1, not_before=other.created)
    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.create(order=other, key="another", amount=1, not_before=other.created)
    with pytest.raises(IntegrityError), transaction.atomic():
        Payment.objects.filter(pk=payment.pk).update(owed_back=payment.amount + 1)


def test_refund_during_late_payment_is_paid_out(sale, fake_provider, monkeypatch):
    fake_provider.slow = True
    mine = an_order(sale)
    payments.pay(mine)
    releasing = services.releasing

    @contextmanager
    def paid_meanwhile(*arguments, **named):
        with releasing(*arguments, **named) as released:
            yield released
        if not released:
            deliver(fake_provider)

    monkeypatch.setattr(services, "releasing", paid_meanwhile)
    assert payments.refund(mine).status in (Order.Status.REFUND_PENDING, Order.Status.REFUNDED)
    deliver(fake_provider)
    assert status(mine) == Order.Status.REFUNDED


def test_refund_whose_event_precedes_its_answer_is_paid_once(sale, fake_provider):
    mine = paid(sale)
    fake_provider.slow = True

    def news_first(call: str) -> None:
        if call == "refund":
            with pytest.raises(settlement.NotYet):
                deliver(fake_provider)

    fake_provider.after = news_first
    assert payments.refund(mine).status == Status.REFUND_PENDING
    fake_provider.after = lambda call: None
    come_to_rest(fake_provider)
    assert status(mine) == "refunded"


def test_refund_event_after_a_retry_changes_nothing(sale, fake_provider):
    mine, hear = paid(sale), transaction.atomic(settlement.record_refund_outcome)
    fake_provider.slow = True
    payments.refund(mine)
    [first] = fake_provider.on_the_way.values()
    failed = replace(first, status="failed")
    fake_provider.on_the_way.clear()
    hear(failed)
    assert payments.retry(Refund.objects.filter(payment__order=mine)) == 1
    with pytest.raises(settlement.NotYet):  # until the second number is known, it may be that
        hear(failed)
    sweep()
    hear(failed)
    assert Refund.objects.get(payment__order=mine).state == Refund.State.PENDING
    deliver(fake_provider)
    assert status(mine) == "refunded"


def test_capture_under_another_key_answers_this_payment(fake_provider):
    mine = an_order(a_sale())

    def another_first(call: str) -> None:
        if call == "capture":
            fake_provider.before = lambda call: None
            [intent] = fake_provider.intents
            fake_provider.capture(intent, key="another")

    fake_provider.before = another_first
    assert payments.pay(mine).status == "paid"
    assert fake_provider.captures[mine.pk] == [mine.amount]
    assert Payment.objects.get(order=mine).state == Payment.State.CAPTURED


def test_payment_during_the_end_of_its_order_is_refused(fake_provider):
    sale = a_sale(stock=1)
    mine = an_order(sale)

    def end_first(call: str) -> None:
        if call == "capture":
            fake_provider.before = lambda call: None
            make_due(mine)
            orders.expire()
            an_order(sale)

    fake_provider.before = end_first
    with pytest.raises(WrongState, match="expired"):
        payments.pay(mine)
    assert fake_provider.captures[mine.pk] == [mine.amount]


def test_payment_that_cannot_be_settled_blocks_no_other(fake_provider, monkeypatch, caplog):
    sale = a_sale()
    bad, good = an_order(sale), an_order(sale)
    fake_provider.before = lost("capture", "capture")
    for each in (bad, good):
        with pytest.raises(PaymentUnknown):
            payments.pay(each)
    Payment.objects.update(not_before=Now())
    advance = paying.advance

    def fail_for_one(payment: Payment) -> None:
        if payment.order_id == bad.pk:
            raise ZeroDivisionError
        advance(payment)

    monkeypatch.setattr(paying, "advance", fail_for_one)
    recovery.settle()
    assert "could not be settled" in caplog.text
    assert (status(bad), status(good)) == ("awaiting_payment", "paid")


POINTS = [(when, call) for call in ("create", "capture") for when in ("before", "after")]


@pytest.mark.parametrize("end", ["cancelled", "expired"])
@pytest.mark.parametrize(("when", "call"), POINTS)
def test_payment_of_a_crashed_order_is_refunded_or_not_taken(when, call, end, sale, fake_provider):
    sale = a_sale(stock=1)
    mine = an_order(sale)
    setattr(fake_provider, when, crash_at(call))
    with pytest.raises(Crash):
        payments.pay(mine)
    fake_provider.before = fake_provider.after = lambda made: None
    if end == "cancelled":
        orders.cancel(mine)
    else:
        make_due(mine)
        orders.expire()
        an_order(sale)
    come_to_rest(fake_provider)
    assert status(mine) == end
    assert sum(fake_provider.captures[mine.pk]) == sum(fake_provider.refunds[mine.pk])
    assert bool(fake_provider.captures[mine.pk]) == ((when, call) == ("after", "capture"))
    check(sale, fake_provider)


def returns(sale: Sale) -> list[int]:
    found = StockMovement.objects.filter(item=sale.item_id, reason="release")
    return list(found.order_by("pk").values_list("delta", flat=True))


def test_expiry_during_a_payment_leaves_the_order_paid():
    """The payment began in time and commits later; the sweep waits for it and skips the order."""
    sale = a_sale()
    mine = an_order(sale)
    make_due(mine)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("UPDATE inventory_reservation SET state = 'confirmed'")
        session.execute("UPDATE shop_order SET status = 'paid'")
        with in_thread(orders.expire) as sweep:
            wait_until_blocked(1)
            session.execute("COMMIT")
            assert sweep() == 0
    assert status(mine) == "paid"
    assert (book(sale.item_id).confirmed, returns(sale)) == (1, [])


def test_expiry_that_meets_a_longer_hold_leaves_the_order_alone():
    """As the buyer's part of a payment, or staff, prolongs it."""
    sale = a_sale()
    mine = an_order(sale)
    make_due(mine)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("UPDATE inventory_reservation SET deadline = now() + interval '1 hour'")
        with in_thread(orders.expire) as sweep:
            wait_until_blocked(1)
            session.execute("COMMIT")
            assert sweep() == 0
    assert status(mine) == "awaiting_payment"
    assert (book(sale.item_id).held, returns(sale)) == (1, [])


def test_payment_during_an_expiry_reclaims_the_unit():
    sale = a_sale()
    mine = an_order(sale)
    with outsider() as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM inventory_reservation FOR UPDATE")
        with in_thread(partial(payments.pay, mine)) as payment:
            wait_until_blocked(1)
            session.execute("SELECT FROM inventory_item FOR NO KEY UPDATE")
            session.execute(
                "UPDATE inventory_item SET available = available + 1, version = version + 1"
            )
            session.execute(
                "INSERT INTO inventory_stockmovement (item_id, delta, reason)"
                " SELECT id, 1, 'release' FROM inventory_item"
            )
            session.execute("UPDATE inventory_reservation SET state = 'released'")
            session.execute("UPDATE inventory_buyerquota SET used = 0")
            session.execute("UPDATE shop_order SET status = 'expired'")
            session.execute("COMMIT")
            assert payment().status == Status.PAID
    assert mine.events.get().kind == "paid_late"
    assert (book(sale.item_id).available, book(sale.item_id).confirmed) == (9, 1)


def test_books_balance_while_buying_cancelling_and_expiring(sale_of):
    sale = sale_of(10, limit=3, hold=timedelta(milliseconds=30))
    buyers = [a_buyer() for _ in range(12)]

    def buy_and_regret(buyer: User) -> None:
        for n in range(4):
            try:
                mine = an_order(sale, buyer)
                if n % 2:
                    orders.cancel(mine)
            except (Refusal, WrongState):
                orders.expire()

    answers = at_once([partial(buy_and_regret, buyer) for buyer in buyers])
    assert kinds(answers) == {"NoneType": 12}
    make_due(*Order.objects.filter(status=Status.AWAITING_PAYMENT))
    while orders.expire():
        pass
    assert (book(sale.item_id).available, book(sale.item_id).held) == (10, 0)
    assert Item.objects.get(pk=sale.item_id).reserved == 0
    assert sum(returns(sale)) == Order.objects.filter(lines__sale=sale).count()
    payloads = OutboxMessage.objects.filter(topic="orders.expired").values_list(
        "payload", flat=True
    )
    expired = Order.objects.filter(status=Status.EXPIRED).order_by("pk")
    named = sorted(pk for payload in payloads for pk in payload["orders"])
    assert named == list(expired.values_list("pk", flat=True))


def test_timeline_and_refunds_cannot_be_changed_or_deleted(sale):
    payments.refund(paid(sale))
    for forbidden in (
        "UPDATE shop_orderevent SET kind = 'cancelled'",
        "DELETE FROM shop_orderevent",
        "DELETE FROM shop_refund",
    ):
        with pytest.raises(IntegrityError), connection.cursor() as cursor:
            cursor.execute(forbidden)
