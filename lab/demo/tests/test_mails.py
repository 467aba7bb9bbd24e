"""The demo's pages with the mails about an order."""

from __future__ import annotations

import pytest
from django.test import Client

from lab.demo import mails
from shop.background.follow_up import follow_up
from shop.operating import headers
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


def test_buyers_and_staff_see_an_orders_mails(admin_client: Client) -> None:
    order = an_order(a_sale())
    follow_up()
    own, other = Client(), Client()
    own.force_login(order.buyer)
    other.force_login(a_buyer())
    pages = [f"/orders/{order.pk}/mails/", f"/orders/{order.pk}/mails/confirmation/"]
    for page in pages:
        assert [client.get(page).status_code for client in (own, admin_client, other)] == [
            *(200, 200, 404),
        ]
    assert pages[0] in own.get(f"/orders/{order.pk}/").content.decode()
    assert own.get(f"/orders/{order.pk}/mails/paid/").status_code == 404, "there is none yet"


def test_a_mail_may_load_nothing_and_is_framed_by_the_shop_only() -> None:
    order, client = an_order(a_sale()), Client()
    follow_up()
    client.force_login(order.buyer)
    sent = client.get(f"/orders/{order.pk}/mails/confirmation/").headers
    assert sent[headers.POLICY] == mails.POLICY
    assert sent["X-Frame-Options"] == "SAMEORIGIN"
