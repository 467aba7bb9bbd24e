"""Every currency that the admin offers: in the books, on pages, and at the payment provider."""

from __future__ import annotations

import importlib
from decimal import Decimal
from types import SimpleNamespace
from xml.etree import ElementTree

import iso4217
import pytest
from babel.numbers import list_currencies
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connection
from django.urls import reverse

from shop import payments
from shop.audit import examine
from shop.catalogue.models import Product, Sale
from shop.money import check_currency, decimals, display, is_money, plain, to_major, to_minor
from shop.payments.models import Payment
from shop.payments.provider import LedgerLine
from shop.refusals import Refusal
from shop.tests.catalogue import a_sale, an_order

OFFERED = sorted(code for code in list_currencies() if is_money(code))

ISO = {"RSD": 2, "ALL": 2, "LBP": 2, "LAK": 2, "MMK": 2, "MGA": 2, "IRR": 2, "AFN": 2, "KPW": 2}
ISO |= {"SOS": 2, "SYP": 2, "YER": 2, "IQD": 3, "KWD": 3, "JPY": 0, "ISK": 0, "UGX": 0, "CNY": 2}
"""Most of those of which Babel says something else, and a few others."""

STRIPE = {"ISK": 2, "UGX": 2, "MGA": 0}
"""Where Stripe counts otherwise than ISO 4217."""


def official() -> dict[str, int]:
    """Read the list that the maintenance agency of ISO 4217 publishes."""
    text = (importlib.resources.files(iso4217) / "table.xml").read_bytes()
    rows = ElementTree.fromstring(text).iter("CcyNtry")
    found = {row.findtext("Ccy", ""): row.findtext("CcyMnrUnts", "") for row in rows}
    return {code: int(places) for code, places in found.items() if places.isdigit()}


@pytest.mark.parametrize("code", OFFERED)
def test_books_count_a_currency_as_iso_4217_does(code):
    places = official()[code]
    assert decimals(code) == places
    assert to_minor(Decimal(500), code) == 500 * 10**places
    assert to_major(500 * 10**places, code) == 500
    with pytest.raises(ValueError, match="no amount"):
        to_minor(Decimal(10) ** -(places + 1), code)


@pytest.mark.parametrize("code", OFFERED)
def test_page_shows_the_amount_that_is_paid(code):
    one = 1 if decimals(code) else 100
    for amount in (500 * 10 ** decimals(code), 500 * 10 ** decimals(code) + one):
        digits = "".join(each for each in display(amount, code, "en") if each in "0123456789.")
        assert Decimal(digits.strip(".")) == to_major(amount, code)
    assert plain(5 * 10 ** decimals(code), code).startswith("5")


def test_known_minor_units():
    assert {code: decimals(code) for code in ISO} == ISO
    assert display(50_000, "RSD", "en") == "RSD500"


@pytest.mark.parametrize("code", ["XXX", "XTS", "XAU", "XDR", "DEM", "ABC", ""])
def test_currency_needs_a_minor_unit(code):
    with pytest.raises(ValidationError):
        check_currency(code)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "code",
    [pytest.param(code, marks=[] if code in ISO else [pytest.mark.long]) for code in OFFERED],
)
def test_admin_stores_a_price_as_iso_4217_does(code, admin_client):
    sale = a_sale(currency=code, price=1)
    form = {
        "price": "500",
        "limit": 1,
        "hold": "00:15:00",
        "starts_at_0": "2020-01-01",
        "starts_at_1": "00:00",
        "ends_at_0": "2035-01-01",
        "ends_at_1": "00:00",
    }
    admin_client.post(reverse("admin:shop_sale_change", args=[sale.pk]), form)
    sale.refresh_from_db()
    assert sale.price == 500 * 10 ** official()[code]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("code", ["ISK", "UGX", "MGA", "JPY", "RSD", "KWD", "CNY"])
def test_provider_is_asked_in_its_own_units(code, fake_provider, monkeypatch):
    monkeypatch.setattr(fake_provider, "decimals", lambda each: STRIPE.get(each, decimals(each)))
    places = STRIPE.get(code, decimals(code))
    order = an_order(a_sale(currency=code, price=500 * 10 ** decimals(code)))
    assert payments.pay(order).status == "paid"
    assert fake_provider.captures[order.pk] == [500 * 10**places]
    intent = Payment.objects.get().intent
    lines = [LedgerLine(1, order.pk, intent, "capture", 500 * 10**places, code)]
    monkeypatch.setattr(fake_provider, "ledger", lambda: lines)
    assert examine().problems == []
    assert payments.refund(order).refunded == order.amount
    assert fake_provider.refunds[order.pk] == [500 * 10**places]


@pytest.mark.django_db(transaction=True)
def test_amount_that_the_provider_cannot_express_is_not_charged(fake_provider, monkeypatch):
    monkeypatch.setattr(fake_provider, "decimals", lambda code: 0)
    order = an_order(a_sale(currency="MGA", price=50_050))
    with pytest.raises(Refusal, match="payment_declined"):
        payments.pay(order)
    assert not fake_provider.captures[order.pk]


@pytest.mark.django_db(transaction=True)
def test_migration_keeps_the_price_that_was_shown():
    migration = importlib.import_module("shop.migrations.0004_minor_units")
    schema_editor = SimpleNamespace(connection=connection)
    sale = a_sale(price=500)
    for code, price in (("RSD", 50_000), ("IQD", 500_000), ("CNY", 500), ("JPY", 500)):
        Sale.objects.update(currency=code, price=500)
        Product.objects.update(currency=code, list_price=500)
        migration.multiply(apps, schema_editor)
        sale.refresh_from_db()
        assert sale.price == sale.product.list_price == price
        migration.divide(apps, schema_editor)
        assert Sale.objects.get().price == 500
        sale.product.refresh_from_db()
