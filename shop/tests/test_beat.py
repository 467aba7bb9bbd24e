"""Every sweep runs twice at the same moment, as with two beats, and does what one does."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.mail.backends.locmem import EmailBackend
from django.db.models.functions import Now

from inventory.hooks import hooks
from inventory.models import OutboxMessage
from inventory.tests.helpers import at_once, book
from shop import payments
from shop.audit.report import Alert
from shop.background import config, expiry, tasks
from shop.celery import app
from shop.draws import tasks as draw_tasks
from shop.draws.tests.catalogue import a_draw, buyers, end, enter_all
from shop.orders.models import Order
from shop.orders.transitions import Act
from shop.payments.identification import report
from shop.payments.models import Discrepancy, Payment, Refund
from shop.staff import stopping
from shop.staff.models import SaleStop
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import check, make_due, paid, status
from shop.tests.provider import FakeProvider

pytestmark = pytest.mark.django_db(transaction=True)

SWEEPS = sorted({task for task, *_ in config.TASKS} | {draw_tasks.run_draws.name})

MOMENT = 0.02
"""Seconds."""

ROUNDS = 6
"""A stopped sale needs as many: its orders are read until a round finds none."""


@pytest.fixture(autouse=True)
def nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks ask for no continuation, so that only the test runs them."""
    for module in (tasks, draw_tasks):
        monkeypatch.setattr(module, "ask_for", lambda task: True)


@pytest.fixture(autouse=True)
def others_come_meanwhile(fake_provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a moment for each mail, call of the provider and message, so that sweeps overlap."""
    send_at_once = EmailBackend.send_messages

    def send(server: EmailBackend, messages: Any) -> int:
        time.sleep(MOMENT)
        return int(send_at_once(server, messages))

    monkeypatch.setattr(EmailBackend, "send_messages", send)
    monkeypatch.setattr(hooks, "failpoint", lambda point: time.sleep(MOMENT))
    fake_provider.before = lambda call: time.sleep(MOMENT)


def come_due() -> None:
    """Let what was put off be due, and a stopped sale be paused for long enough."""
    OutboxMessage.objects.filter(done=None).update(not_before=Now())
    for kind in (Payment, Refund):
        kind.objects.filter(state=kind.State.PENDING).update(not_before=Now())
    SaleStop.objects.update(started=Now() - timedelta(minutes=2))


def test_sweeps_of_two_beats_do_everything_once(
    fake_provider: FakeProvider, mailoutbox: list[Any], settings: Any
) -> None:
    settings.SHOP_MAIL_INTERVAL = 0  # which would keep a second mail from the same address
    sale, stopped = a_sale(), a_sale()
    expiring = [an_order(sale) for _ in range(3)]
    bought, given_back = paid(sale), paid(sale)
    dropped, returned = an_order(stopped), paid(stopped)
    draw = a_draw(stock=2)
    enter_all(draw, buyers(3))
    # The provider does what it is asked for, and tells nobody.
    fake_provider.slow = True
    settling = payments.pay(an_order(sale))
    payments.refund(given_back)
    fake_provider.finish()
    fake_provider.slow = False
    make_due(*expiring)
    expiry.queue().enqueue([str(order.pk) for order in expiring[:2]], -1, reschedule=True)
    stopping.stop_sale(stopped.pk, Act("ann", "wrong price"), handed_over=False)
    end(draw)
    payment = Payment.objects.get(order=bought)
    report(payment, Discrepancy.Kind.MISMATCH, "pi_other", f"payment {payment.pk} is odd")

    for _ in range(ROUNDS):
        come_due()
        for name in SWEEPS:
            results = at_once([app.tasks[name]] * 2)
            assert [result for result in results if isinstance(result, Exception)] == [], name

    assert [status(order) for order in expiring] == ["expired"] * 3
    assert [status(order) for order in (bought, settling)] == ["paid"] * 2
    assert [status(order) for order in (given_back, returned)] == ["refunded"] * 2
    assert status(dropped) == "cancelled"
    for each in (sale, stopped):
        check(each, fake_provider)  # each capture, refund, step and unit once
    assert (book(sale.item_id).available, book(stopped.item_id).available) == (8, 10)
    assert Order.objects.filter(lines__sale=draw.pk).count() == 2
    assert book(draw.sale.item_id).available == 0
    assert not OutboxMessage.objects.filter(done=None).exists()
    sent = Counter((mail.to[0], mail.subject) for mail in mailoutbox)
    assert set(sent.values()) == {1}
    assert Alert.objects.filter(closed=None).count() == 1
