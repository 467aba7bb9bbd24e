"""Mails of each kind, in both languages, as text and HTML."""

from __future__ import annotations

import pytest

from shop.catalogue.models import Product
from shop.mails.rendering import Kind, letter, message
from shop.orders.models import Order
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


def two_phones() -> Order:
    return an_order(a_sale(limit=2), quantity=2)


def test_a_mail_is_sent_as_text_and_html_under_its_own_id(settings):
    settings.SHOP_NAME = "Acme Tickets"
    order = two_phones()
    sent = message(Kind.PAID, order).message()
    assert [part.get_content_type() for part in sent.walk()][1:] == ["text/plain", "text/html"]
    assert sent["Message-ID"] == f"<paid.{order.pk}@acme-tickets>"


def test_a_products_name_can_neither_break_the_header_nor_the_page():
    order = an_order(a_sale())
    Product.objects.update(name="Phone\r\nBcc: all@shop.example <script>")
    sent = message(Kind.CONFIRMATION, order)
    assert "\n" not in sent.subject
    assert sent.message()["Bcc"] is None
    assert "<script>" not in letter(Kind.CONFIRMATION, order).html


def test_without_an_address_of_the_shop_a_mail_has_no_link(settings):
    settings.PUBLIC_URL = ""
    written = letter(Kind.CONFIRMATION, two_phones())
    assert "http" not in written.text
    assert "<a " not in written.html
