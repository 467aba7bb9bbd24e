"""Amounts in minor units of a currency, and their conversion and display."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from babel.numbers import format_currency, get_currency_precision, is_currency
from django.conf import settings
from django.core.exceptions import ValidationError
from msgspec import Meta, Struct


class Money(Struct, frozen=True, forbid_unknown_fields=True):
    """An amount of money."""

    amount: Annotated[
        int,
        Meta(ge=0, description="In the currency's minor unit: 99900 of CNY are ¥999.00."),
    ]
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$", description="ISO 4217 code.")]


def default_currency() -> str:
    """Return the currency of products and sales that do not name one."""
    code: str = settings.CURRENCY
    return code


def is_money(code: str) -> bool:
    """Return whether a code is that of a currency; ISO 4217 has codes for none and for tests."""
    return is_currency(code) and code not in {"XXX", "XTS"}


def check_currency(code: str) -> None:
    """Refuse unknown currencies.

    Raises:
        ValidationError: it is not in ISO 4217.
    """
    if not is_money(code):
        raise ValidationError(f"There is no currency {code!r} in ISO 4217.")


def to_minor(amount: Decimal, currency: str) -> int:
    """Convert an amount in major units, such as 9.50, to minor units, such as 950.

    Raises:
        ValueError: it has more decimal places than the currency.
    """
    units = amount.scaleb(get_currency_precision(currency))
    if units != units.to_integral_value():
        raise ValueError(f"{currency} has no amount of {amount}")
    return int(units)


def to_major(amount: int, currency: str) -> Decimal:
    """Convert minor units, such as 950, to major units, such as 9.50."""
    return Decimal(amount).scaleb(-get_currency_precision(currency))


def plain(amount: int, currency: str) -> str:
    """Format an amount for operators and programmers: `999.00 CNY`."""
    return f"{to_major(amount, currency)} {currency}"


def display(amount: int, currency: str, locale: str) -> str:
    """Format an amount for a locale: `CN¥1,999.00` in `en`.

    Args:
        amount: in minor units.
        currency: ISO 4217 code.
        locale: of Babel, such as `zh_Hans`.
    """
    return format_currency(to_major(amount, currency), currency, locale=locale)
