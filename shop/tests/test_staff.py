"""Acts of staff on orders: by permission, once however often they are sent, during a sale."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from inventory.models import OutboxMessage
from inventory.tests.helpers import book
from shop import orders, payments
from shop.accounts.models import User
from shop.audit import examine
from shop.background import tasks
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time
from shop.checkout import buy
from shop.mails.rendering import Kind as MailKind
from shop.mails.sending import topic
from shop.orders.models import Order, OrderEvent, Status
from shop.orders.transitions import Act
from shop.payments import settlement
from shop.payments.models import Discrepancy, Refund
from shop.payments.provider import Dispute, Intent, PaymentDeclined, provider
from shop.refusals import Refusal
from shop.staff import orders as staff
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.money import make_due, paid, status
from shop.tests.provider import FakeProvider
from shop.tests.twice import post_twice, purchases

pytestmark = pytest.mark.django_db(transaction=True)

Kind = OrderEvent.Kind
PRICE = 99_900
ACT = Act("ann", "as the buyer asked")


def an_operator(*permissions: str) -> Client:
    """Return the browser of somebody of staff who has these permissions only."""
    user = User.objects.create_user(f"staff-{uuid4().hex[:8]}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def handed_over(sale: Any) -> Order:
    order = paid(sale)
    orders.fulfil([order.pk])
    order.refresh_from_db()
    return order


def expired(sale: Any) -> Order:
    order = an_order(sale)
    make_due(order)
    orders.expire()
    return order


def refund_failed(sale: Any) -> Order:
    """Return an order whose refund the provider refused."""
    order = paid(sale)
    fake = cast(FakeProvider, provider())
    fake.before = _refuse_refunds
    payments.refund(order)
    fake.before = lambda call: None
    return order


def _refuse_refunds(call: str) -> None:
    if call == "refund":
        raise PaymentDeclined("refused")


@dataclass(frozen=True)
class Case:
    """An act that an operator does on a page.

    Attributes:
        page: the end of its address.
        permission: the only one that it needs.
        order: makes the order that it is about.
        event: that it leaves in the history.
        ends: the order's status afterwards.
        back: what the buyer has got back then.
        given: what the form is filled in with.
    """

    page: str
    permission: str
    order: Callable[[Any], Order]
    event: str
    ends: str
    back: int = 0
    given: dict[str, str] = field(default_factory=dict)


CASES = {
    "cancel": Case("cancel", "cancel_order", an_order, Kind.CANCELLED, Status.CANCELLED),
    "extend": Case(
        "hold", "extend_order", an_order, Kind.EXTENDED, Status.AWAITING_PAYMENT,
        given={"minutes": "90"},
    ),
    "renew": Case(
        "hold", "extend_order", expired, Kind.RENEWED, Status.AWAITING_PAYMENT,
        given={"minutes": "90"},
    ),
    "return": Case("refund", "refund_order", paid, Kind.RETURNED, Status.REFUNDED, PRICE),
    "take back": Case(
        "refund", "refund_order", handed_over, Kind.TAKEN_BACK, Status.REFUNDED, PRICE
    ),
    "goodwill": Case(
        "goodwill", "refund_order", handed_over, Kind.GOODWILL, Status.FULFILLED, 1_050,
        given={"amount": "10.50"},
    ),
    "by hand": Case(
        "refund-by-hand", "record_refund", refund_failed, Kind.REFUND_BY_HAND, Status.REFUNDED,
        PRICE, given={"amount": "999", "number": "re_by_hand"},
    ),
    "dispute": Case(
        "lost-dispute", "record_refund", handed_over, Kind.DISPUTE_LOST, Status.FULFILLED, PRICE,
        given={"amount": "999", "number": "dp_1"},
    ),
    "mail": Case(
        "mail", "resend_mail", paid, Kind.MAIL_RESENT, Status.PAID, given={"kind": "paid"}
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, settings: Any) -> Case:
    settings.CURRENCY = "CNY"
    return CASES[request.param]


def page_of(case: Case, order: Order) -> str:
    return reverse(f"admin:shop_order_{case.page}", args=[order.pk])


def filled_in(client: Client, case: Case, order: Order) -> dict[str, str]:
    """Open an act's page and fill in its form."""
    text = client.get(page_of(case, order)).content.decode()
    key = re.search(r'name="key" value="([0-9a-f-]+)"', text)
    assert key
    return {"key": key[1], "reason": "as the buyer asked", **case.given}


def test_act_needs_its_permission_and_no_other(case, fake_provider):
    order = case.order(a_sale(price=PRICE))
    others = {other.permission for other in CASES.values()} - {case.permission}
    stranger = an_operator("view_order", "change_order", *others)
    assert stranger.get(page_of(case, order)).status_code == 403
    assert stranger.post(page_of(case, order), {"reason": "x"}).status_code == 403
    assert not order.events.exclude(actor="").exists()

    operator = an_operator(case.permission)
    answer = operator.post(page_of(case, order), filled_in(operator, case, order))
    assert answer.status_code == 302, answer.content.decode()
    [event] = order.events.filter(kind=case.event)
    assert event.actor.startswith("staff-")
    assert event.reason == "as the buyer asked"
    order.refresh_from_db()
    assert (order.status, order.refunded) == (case.ends, case.back)


def test_act_sent_twice_at_once_while_others_buy_is_done_once(case, fake_provider):
    sale = a_sale(price=PRICE, stock=30)
    order = case.order(sale)
    operator = an_operator(case.permission)
    form = filled_in(operator, case, order)

    answers = post_twice(operator, page_of(case, order), form, purchases(sale, 8))
    assert 302 in answers
    assert order.events.filter(kind=case.event).count() == 1
    order.refresh_from_db()
    assert (order.status, order.refunded) == (case.ends, case.back)
    assert Order.objects.filter(lines__sale=sale).count() == 9
    asked_of_provider = 0 if case.permission == "record_refund" else case.back
    assert sum(fake_provider.refunds[order.pk]) == asked_of_provider
    report = examine()
    assert report.balanced, report.problems


def discrepancy(sale: Any) -> Discrepancy:
    """Return a dispute that the provider has reported."""
    order = paid(sale)
    with transaction.atomic():
        settlement.record_dispute(Dispute("dp_8", order.payments.get().intent, PRICE, "open"))
    return Discrepancy.objects.get()


def failed_refund(sale: Any) -> Refund:
    return Refund.objects.get(payment__order=refund_failed(sale))


def paused(sale: Any) -> Sale:
    Sale.objects.filter(pk=sale.pk).update(paused=True)
    return Sale.objects.get(pk=sale.pk)


@dataclass(frozen=True)
class ListCase:
    """An act that an operator does with the chosen rows of a list.

    Attributes:
        model: of the rows.
        action: its name.
        permission: the only one that it needs.
        row: makes the row that is chosen.
        done: tells what it has become afterwards.
        becomes: what it must have become.
    """

    model: type[Model]
    action: str
    permission: str
    row: Callable[[Any], Any]
    done: Callable[[Any], object]
    becomes: object


LIST_CASES = {
    "hand over": ListCase(
        Order, "fulfil", "change_order", paid, lambda row: row.status, Status.FULFILLED
    ),
    "retry": ListCase(
        Refund, "retry", "change_refund", failed_refund, lambda row: (row.state, row.tries),
        ("pending", 2),
    ),
    "close": ListCase(
        Discrepancy, "close", "change_discrepancy", discrepancy,
        lambda row: row.closed is not None, True,
    ),
    "pause": ListCase(
        Sale, "pause", "change_sale", lambda sale: sale, lambda row: row.paused, True
    ),
    "resume": ListCase(Sale, "resume", "change_sale", paused, lambda row: row.paused, False),
}  # fmt: skip


@pytest.fixture(params=LIST_CASES)
def list_case(request: pytest.FixtureRequest) -> ListCase:
    return LIST_CASES[request.param]


def choose(client: Client, case: ListCase, row: Any) -> int:
    """Choose a row of a list and an act; return the answer's status."""
    meta = case.model._meta
    form = {"action": case.action, "_selected_action": [row.pk]}
    where = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
    return client.post(where, form).status_code


def test_act_on_a_list_needs_its_permission_and_no_other(list_case, fake_provider):
    row = list_case.row(a_sale(price=PRICE))
    before = list_case.done(row)
    others = {other.permission for other in LIST_CASES.values()} - {list_case.permission}
    assert choose(an_operator(*others), list_case, row) == 403
    choose(an_operator(list_case.permission.replace("change", "view")), list_case, row)
    row.refresh_from_db()
    assert list_case.done(row) == before
    assert not LogEntry.objects.exists()

    assert choose(an_operator(list_case.permission), list_case, row) == 302
    row.refresh_from_db()
    assert list_case.done(row) == list_case.becomes
    assert LogEntry.objects.get().user.username.startswith("staff-")


def test_list_action_sent_twice_at_once_is_done_once(list_case, fake_provider):
    sale = a_sale(price=PRICE, stock=30)
    row = list_case.row(sale)
    placed = Order.objects.count()
    operator = an_operator(list_case.permission)

    def send() -> int:
        client = Client()
        client.cookies = operator.cookies
        try:
            return choose(client, list_case, row)
        finally:
            connection.close()

    def purchase(buyer: int) -> bool:
        try:
            buy(sale.pk, buyer, uuid4(), 1)
        except Refusal:  # while the sale is paused
            return False
        finally:
            connection.close()
        return True

    buyers = [a_buyer().pk for _ in range(8)]
    with ThreadPoolExecutor(10) as pool:
        sent = [pool.submit(send) for _ in range(2)]
        bought = sum(pool.map(purchase, buyers))
    assert [response.result() for response in sent] == [302, 302]
    row.refresh_from_db()
    assert list_case.done(row) == list_case.becomes
    assert LogEntry.objects.count() == 1
    assert Order.objects.count() == placed + bought
    book(sale.item_id)  # which must balance


def test_act_on_an_order_in_another_state_changes_nothing(fake_provider):
    operator = an_operator("cancel_order", "refund_order", "extend_order", "record_refund")
    fulfilled, unpaid = handed_over(a_sale(price=PRICE)), an_order(a_sale(price=PRICE))
    for name, order in (("cancel", fulfilled), ("extend", fulfilled), ("goodwill", unpaid),
                        ("return", unpaid), ("dispute", unpaid)):  # fmt: skip
        before = order.events.count()
        form = filled_in(operator, CASES[name], order)
        assert operator.post(page_of(CASES[name], order), form).status_code == 409
        assert order.events.count() == before


def test_act_without_a_reason_is_refused():
    order = an_order(a_sale())
    operator = an_operator("cancel_order")
    form = {**filled_in(operator, CASES["cancel"], order), "reason": " "}
    assert "errorlist" in operator.post(page_of(CASES["cancel"], order), form).text
    assert status(order) == Status.AWAITING_PAYMENT


def test_goodwill_comes_off_a_later_return(fake_provider):
    sale = a_sale(price=PRICE, limit=2)
    order = payments.pay(an_order(sale, quantity=2))
    staff.concede(order, ACT, 150_000, uuid4())
    staff.refund(order, ACT, orders.Part(1, uuid4()))
    order.refresh_from_db()
    assert (order.status, order.refunded) == (Status.PAID, 2 * PRICE)
    assert examine().balanced
    staff.refund(order, ACT)
    assert status(order) == Status.REFUNDED
    assert sum(fake_provider.refunds[order.pk]) == 2 * PRICE
    assert examine().balanced


def test_goodwill_of_another_amount_under_one_key_is_refused(fake_provider):
    order, key = paid(a_sale(price=PRICE)), uuid4()
    staff.concede(order, ACT, 500, key)
    staff.concede(order, ACT, 500, key)
    with pytest.raises(Refusal, match="idempotency_key_reused"):
        staff.concede(order, ACT, 800, key)
    assert Refund.objects.get().amount == 500


def test_hold_never_ends_earlier_than_before():
    order = an_order(a_sale())
    staff.hold(order, ACT, timedelta(hours=2), uuid4())
    order.refresh_from_db()
    until = order.pay_before
    staff.hold(order, ACT, timedelta(minutes=30), uuid4())
    order.refresh_from_db()
    assert order.pay_before == order.lines.get().reservation.deadline == until


def test_goodwill_beyond_the_payment_is_refused(fake_provider):
    order = paid(a_sale(price=PRICE))
    with pytest.raises(Refusal, match="too_much_back"):
        staff.concede(order, ACT, PRICE + 1, uuid4())
    assert not Refund.objects.exists()


def test_refund_by_hand_is_not_counted_again_by_its_webhook(fake_provider):
    order = handed_over(a_sale(price=PRICE))
    [intent] = fake_provider.intents
    made = fake_provider.refund(intent, amount=500, key="by hand")
    staff.record_refund_by_hand(order, ACT, 500, made.id, uuid4())
    order.refresh_from_db()
    assert (order.status, order.refunded, order.conceded) == (Status.FULFILLED, 500, 500)
    with transaction.atomic():
        settlement.record_refund_outcome(made)  # its webhook comes late
    with pytest.raises(Refusal, match="number_reused"):
        staff.record_refund_by_hand(order, ACT, 500, made.id, uuid4())
    assert examine().balanced


def test_lost_dispute_closes_what_the_provider_reported(fake_provider):
    order = handed_over(a_sale(price=PRICE))
    [intent] = fake_provider.intents
    with transaction.atomic():
        settlement.record_dispute(Dispute("dp_7", intent, PRICE, "lost"))
    operator = an_operator("record_refund")
    text = operator.get(page_of(CASES["dispute"], order)).text
    assert 'value="dp_7"' in text
    staff.record_lost_dispute(order, ACT, PRICE, "dp_7", uuid4())
    assert not Discrepancy.objects.filter(closed=None).exists()
    assert examine().balanced


def test_hold_moves_the_deadline_that_the_sweep_obeys():
    order = an_order(a_sale())
    staff.hold(order, ACT, timedelta(hours=2), uuid4())
    order.refresh_from_db()
    line = order.lines.get()
    assert order.pay_before == line.reservation.deadline
    assert order.pay_before > database_time() + timedelta(minutes=119)
    make_due(order)
    tasks.expire_orders()
    assert status(order) == Status.EXPIRED


def test_extended_order_has_a_payment_that_is_still_open(fake_provider, monkeypatch):
    order = an_order(a_sale())
    staff.hold(order, ACT, timedelta(days=1), uuid4())
    Order.objects.filter(pk=order.pk).update(created=database_time() - timedelta(hours=5))
    create, asked = fake_provider.create_intent, list[datetime]()

    def noted(*, expires: datetime, **more: Any) -> Intent:
        asked.append(expires)
        intent: Intent = create(expires=expires, **more)
        return intent

    monkeypatch.setattr(fake_provider, "create_intent", noted)
    payments.pay(order)
    assert status(order) == Status.PAID
    assert asked[0] > database_time()


def test_renewed_order_can_be_paid(fake_provider):
    order = expired(a_sale(stock=1))
    staff.hold(order, ACT, timedelta(hours=1), uuid4())
    payments.pay(order)
    assert status(order) == Status.PAID
    assert examine().balanced


def test_renewal_of_sold_units_is_refused():
    sale = a_sale(stock=1)
    order = expired(sale)
    an_order(sale)
    with pytest.raises(Refusal, match="not_renewable"):
        staff.hold(order, ACT, timedelta(hours=1), uuid4())
    assert status(order) == Status.EXPIRED
    assert book(sale.item_id).available == 0


def test_mail_sent_again_has_an_id_of_its_own(mailoutbox, settings):
    settings.SHOP_MAIL_INTERVAL = 3600
    order = an_order(a_sale())
    tasks.follow_up()
    tasks.send_mails()
    staff.resend(order, ACT, MailKind.CONFIRMATION, uuid4())
    tasks.send_mails()
    first, second = (mail.extra_headers["Message-ID"] for mail in mailoutbox)
    assert first != second


def test_cancelled_by_staff_sends_a_mail_and_by_the_buyer_none():
    first, second = an_order(a_sale()), an_order(a_sale())
    orders.cancel(first)
    staff.cancel(second, ACT)
    tasks.follow_up()
    sent = OutboxMessage.objects.filter(topic=topic(MailKind.CANCELLED))
    assert list(sent.values_list("key", flat=True)) == [str(second.pk)]


def test_order_page_links_what_state_and_permissions_allow():
    order = an_order(a_sale())
    operator = an_operator("view_order", "cancel_order", "refund_order")
    text = operator.get(reverse("admin:shop_order_change", args=[order.pk])).text
    linked = re.findall(rf"/admin/shop/order/{order.pk}/([\w-]+)/", text)
    assert "cancel" in linked
    assert not {"refund", "goodwill", "hold", "mail"} & set(linked)
