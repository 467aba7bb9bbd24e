"""Mails of each kind, in both languages, as text and HTML."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils.translation import override

from shop.background import follow_up
from shop.catalogue.models import Product
from shop.mails.models import Mail
from shop.mails.rendering import TEXTS, letter, message
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = [kind.value for kind in Mail.Kind]


def a_mail(kind: str) -> Mail:
    return Mail.objects.create(order=an_order(a_sale(limit=2), quantity=2), kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mail_says_the_same_as_text_and_as_html_in_both_languages(kind, settings):
    settings.PUBLIC_URL = "https://shop.example"
    mail = a_mail(kind)
    written = letter(mail)
    values = {
        "number": mail.order_id,
        "contents": "2 × Phone",
        "deadline": f"{mail.order.pay_before:%Y-%m-%d %H:%M} UTC",
    }
    for language in ("en", "zh-hans"):
        with override(language):
            texts = [str(text) % values for text in TEXTS[Mail.Kind(kind)]]
        for text in texts:
            assert text in written.text
            assert text in written.html
    for text in ("2 × Phone", "CN¥1,998.00", f"https://shop.example/orders/{mail.order_id}/"):
        assert text in written.text
        assert text in written.html
    assert ("Pay now" in written.text) == (kind == "confirmation")


def test_a_mail_is_sent_as_text_and_html_under_its_own_id():
    mail = a_mail("paid")
    sent = message(mail).message()
    assert [part.get_content_type() for part in sent.walk()][1:] == ["text/plain", "text/html"]
    assert sent["Message-ID"] == f"<paid.{mail.order_id}@flash-sale>"


def test_a_products_name_can_neither_break_the_header_nor_the_page():
    order = an_order(a_sale())
    Product.objects.update(name="Phone\r\nBcc: all@shop.example <script>")
    mail = Mail.objects.create(order=order, kind="confirmation")
    sent = message(mail)
    assert "\n" not in sent.subject
    assert sent.message()["Bcc"] is None
    assert "<script>" not in letter(mail).html


def test_without_an_address_of_the_shop_a_mail_has_no_link(settings):
    settings.PUBLIC_URL = ""
    written = letter(a_mail("confirmation"))
    assert "http" not in written.text
    assert "<a " not in written.html


def test_a_mail_about_money_given_back_says_how_much():
    mail = a_mail("refunded")
    mail.order.refunded = 99_900
    assert re.search(r"Refunded · 已退款: CN¥999\.00\b", letter(mail).text)


def test_the_demo_shows_buyers_and_staff_an_orders_mails(admin_client, settings):
    order = an_order(a_sale())
    follow_up.follow_up()
    own, other = Client(), Client()
    own.force_login(order.buyer)
    other.force_login(a_buyer())
    pages = [f"/orders/{order.pk}/mails/", f"/orders/{order.pk}/mails/confirmation/"]
    for page in pages:
        assert [client.get(page).status_code for client in (own, admin_client, other)] == [
            *(200, 200, 404),
        ]
    assert pages[0] in own.get(f"/orders/{order.pk}/").content.decode()
    assert own.get(pages[1]).headers["X-Frame-Options"] == "SAMEORIGIN"
    settings.SHOP_SHOW_MAILS = False
    for page in pages:
        assert own.get(page).status_code == 404
    assert pages[0] not in own.get(f"/orders/{order.pk}/").content.decode()
