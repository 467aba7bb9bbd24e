"""Amounts in minor units of a currency, and their conversion and display.

Three tables say how many decimal places a currency has, and they differ. The books, the API and
amounts that operators type follow ISO 4217, whose RSD has two. Amounts that buyers see follow CLDR,
which leaves out places that nobody uses: 500 RSD. A payment provider has a table of its own
(`shop.payments.provider.Provider.decimals`).
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Annotated

from babel.numbers import format_currency, get_currency_precision, is_currency
from django.conf import settings
from django.core.exceptions import ValidationError
from iso4217 import Currency
from msgspec import Meta, Struct

MAX_AMOUNT = 2**63 - 1
"""The largest amount that a column can hold, in minor units."""

DECIMALS = {
    currency.code: currency.exponent for currency in Currency if currency.exponent is not None
}
"""Decimal places by currency, of ISO 4217. It has codes without any: metals, units of account."""


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
    """Return whether a code is that of a currency that has a minor unit and can be shown."""
    return code in DECIMALS and is_currency(code)


def decimals(currency: str) -> int:
    """Return how many decimal places the books have for a currency: those of ISO 4217.

    A currency that ISO 4217 has withdrawn, in an old order, has those of CLDR.
    """
    found = DECIMALS.get(currency)
    return get_currency_precision(currency) if found is None else found


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
        ValueError: it has more decimal places than the currency, or is too large to be stored.
    """
    if not amount.is_finite() or (amount and amount.adjusted() > 18):
        raise ValueError(f"{amount} {currency} is too large")
    units = amount.scaleb(decimals(currency))
    if units != units.to_integral_value():
        raise ValueError(f"{currency} has no amount of {amount}")
    if abs(units) > MAX_AMOUNT:
        raise ValueError(f"{amount} {currency} is too large")
    return int(units)


def to_major(amount: int, currency: str) -> Decimal:
    """Convert minor units, such as 950, to major units, such as 9.50."""
    return Decimal(amount).scaleb(-decimals(currency))


# A sale's buyers all have the same few amounts, and decimal arithmetic is slow.
@lru_cache(maxsize=1000)
def included_tax(amount: int, rate: Decimal) -> int:
    """Return the tax in an amount that includes it, rounded half up to the minor unit.

    Args:
        amount: in minor units, with the tax.
        rate: percent of the amount without tax.
    """
    tax = amount * rate / (100 + rate)
    return int(tax.quantize(Decimal(1), ROUND_HALF_UP))


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
    major = to_major(amount, currency)
    usual = get_currency_precision(currency)
    # An amount is never rounded for display: it is what the buyer pays.
    is_usual = major == round(major, usual)
    if is_usual:
        return format_currency(major, currency, locale=locale)
    return format_currency(major, currency, locale=locale, decimal_quantization=False)
