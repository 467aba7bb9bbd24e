"""Amounts: integers in minor units with a currency, from form to database."""

from decimal import Decimal

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from shop.catalogue.models import Sale
from shop.money import display, plain, to_major, to_minor


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
def test_create_sale_takes_a_price_as_people_write_it():
    call_command("create_sale", "--price", "9.50")
    assert Sale.objects.get().price == 950
    with pytest.raises(CommandError, match="--price"):
        call_command("create_sale", "--price", "0.001")
