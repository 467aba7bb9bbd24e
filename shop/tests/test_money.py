"""Amounts: integers in minor units with a currency, from form to database."""

from decimal import Decimal
from uuid import uuid4

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import CommandError

from shop.catalogue.models import Sale
from shop.checkout.purchase import Wanted, check_out
from shop.money import display, plain, to_major, to_minor
from shop.orders.models import Order
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, a_sale, an_order


@pytest.mark.parametrize(
    ("written", "currency", "stored"),
    [
        ("999", "CNY", 99_900),
        ("9.5", "CNY", 950),
        ("0.01", "EUR", 1),
        ("1500", "JPY", 1500),
        ("1.234", "KWD", 1234),
    ],
)
def test_an_amount_is_stored_in_the_minor_unit_of_its_currency(written, currency, stored):
    assert to_minor(Decimal(written), currency) == stored
    assert to_major(stored, currency) == Decimal(written)


@pytest.mark.parametrize(("written", "currency"), [("0.001", "CNY"), ("1.5", "JPY")])
def test_an_amount_of_less_than_a_minor_unit_is_none(written, currency):
    with pytest.raises(ValueError, match=currency):
        to_minor(Decimal(written), currency)


def test_an_amount_is_written_for_its_reader():
    assert display(199_900, "CNY", "en") == "CN¥1,999.00"
    assert display(199_900, "CNY", "zh_Hans") == "¥1,999.00"
    assert display(1500, "JPY", "en") == "¥1,500"
    assert plain(1, "CNY") == "0.01 CNY"


@pytest.mark.django_db
def test_a_sale_has_a_currency_and_its_orders_have_it_too():
    sale = a_sale(currency="JPY", price=1500)
    order = an_order(sale)
    assert (order.amount, order.currency) == (1500, "JPY")
    with pytest.raises(ValidationError, match="ISO 4217"):
        a_sale(currency="XYZ")


@pytest.mark.django_db
def test_a_cart_has_one_currency(client):
    sales = [a_sale(currency="CNY"), a_sale(currency="JPY")]
    wanted = [Wanted(sale.pk, 1) for sale in sales]
    with pytest.raises(Refusal, match="invalid_cart"):
        check_out(a_buyer().pk, uuid4(), wanted)
    assert not Order.objects.exists()
    for sale in sales:
        client.post(f"/cart/{sale.pk}/", {"quantity": "1"})
    assert list(client.session["cart"]) == [str(sales[0].pk)]


@pytest.mark.django_db
def test_create_sale_takes_a_price_as_people_write_it():
    call_command("create_sale", "--price", "9.50")
    assert Sale.objects.get().price == 950
    with pytest.raises(CommandError, match="--price"):
        call_command("create_sale", "--price", "0.001")
