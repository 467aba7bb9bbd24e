"""Each mail goes to its buyer, once, about that buyer's order."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from inventory.tests.helpers import on_this_thread
from shop.background import follow_up
from shop.mails import sending
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.mails import mails

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("event", "kinds"),
    [
        ("opened", ["confirmation"]),
        ("paid", ["paid"]),
        ("paid_late", ["paid"]),
        ("expired", ["expired"]),
        ("refunded", ["refunded"]),
        ("money_owed", ["money_owed"]),
        ("cancelled", []),
    ],
)
def test_what_happens_to_orders_owes_each_of_them_its_mail(event, kinds):
    sale = a_sale()
    bought = [an_order(sale) for _ in range(3)]
    with transaction.atomic():
        follow_up.HANDLERS[f"orders.{event}"]({"orders": [order.pk for order in bought]})
    for order in bought:
        topics = mails(order).values_list("topic", flat=True)
        assert list(topics) == [f"mails.{kind}" for kind in kinds]


def test_each_buyer_gets_the_mail_about_the_own_order(mailoutbox):
    sale = a_sale(limit=5, price=1_000)
    bought = [an_order(sale, a_buyer(), quantity=quantity) for quantity in (1, 2, 3)]
    for order in bought:
        Order.objects.filter(pk=order.pk).update(created="2020-01-01T00:00Z")
    follow_up.follow_up()
    assert len(mailoutbox) == 3
    sent = {mail.to[0]: mail for mail in mailoutbox}
    for quantity, order in enumerate(bought, start=1):
        mail = sent[f"{order.buyer.username}@localhost"]
        assert f"{quantity} × Phone" in mail.subject
        assert re.search(rf"^{quantity} × Phone: CN¥{quantity}0\.00$", mail.body, re.MULTILINE)
        assert re.search(rf"^Total · .*: CN¥{quantity}0\.00$", mail.body, re.MULTILINE)
        assert re.search(rf"^Order · .*: {order.pk}$", mail.body, re.MULTILINE)
        deadline = f"{order.pay_before:%Y-%m-%d %H:%M} UTC"
        assert re.search(rf"^Pay before · .*: {deadline}$", mail.body, re.MULTILINE)
        assert f"until {deadline}" in mail.body


def test_a_mail_that_a_worker_is_sending_is_not_sent_by_another(mailoutbox, monkeypatch):
    an_order(a_sale())
    follow_up.deliver()
    send = sending._send

    def send_while_another_looks(*arguments):
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(on_this_thread, sending.send_mails).result() == 0
        return send(*arguments)

    monkeypatch.setattr(sending, "_send", send_while_another_looks)
    assert sending.send_mails() == 1
    assert len(mailoutbox) == 1
