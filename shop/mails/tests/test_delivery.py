"""Each mail goes to its buyer, once, about that buyer's order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from inventory.tests.helpers import on_this_thread
from shop.background import follow_up
from shop.mails import sending
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


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
