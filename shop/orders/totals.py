"""What an order costs: its units, and fees such as shipping. The only place that adds up an order.

A team names the function that says an order's fees in the setting `SHOP_FEES`:

    def fees(basket: Basket) -> list[Fee]:
        if basket.amount >= 100_00:
            return []
        return [Fee(gettext_noop("Shipping"), 4_90, tax_rate=Decimal(19))]

It is called for each order that is opened, in the transaction that opens it, and for pages that
show what an order would cost. So it must be quick, and answer the same for the same basket. Without
the setting an order has no fees, and opening it costs nothing more than its units do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string


@dataclass(frozen=True, slots=True)
class PricedLine:
    """Units of a sale at its price, in minor units."""

    sale: int
    quantity: int
    price: int

    @property
    def amount(self) -> int:
        """Return the price of all units."""
        return self.price * self.quantity


@dataclass(frozen=True, slots=True)
class Basket:
    """What somebody orders, or is about to.

    Attributes:
        lines: at the prices of now.
        currency: of the prices and of the fees.
        details: what the buyer states with the order, such as an address; empty on pages that show
            a price before the buyer has said anything.
    """

    lines: Sequence[PricedLine]
    currency: str
    details: Mapping[str, Any]

    @property
    def amount(self) -> int:
        """Return the price of all units, in minor units, without fees."""
        return sum(line.amount for line in self.lines)

    @property
    def quantity(self) -> int:
        """Return the units of all lines."""
        return sum(line.quantity for line in self.lines)


@dataclass(frozen=True, slots=True)
class Fee:
    """A line of money that is not units.

    Attributes:
        name: what the buyer reads, as a message of the catalogues; one fee per name and order.
        amount: in minor units of the order's currency; 0 leaves the fee out.
        tax_rate: percent, included in the amount.
    """

    name: str
    amount: int
    tax_rate: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Total:
    """What an order costs, in minor units."""

    units: int
    fees: Sequence[Fee]

    @property
    def fee_amount(self) -> int:
        """Return the sum of the fees."""
        return sum(fee.amount for fee in self.fees)

    @property
    def amount(self) -> int:
        """Return what is to be paid."""
        return self.units + self.fee_amount


def total(basket: Basket) -> Total:
    """Add up an order.

    Raises:
        ImproperlyConfigured: the function in `SHOP_FEES` answers what is no fee.
    """
    function = fees_function(settings.FEES)
    if function is None:
        return Total(basket.amount, ())
    fees = [fee for fee in function(basket) if fee.amount]
    if len({fee.name for fee in fees}) < len(fees) or any(fee.amount < 0 for fee in fees):
        raise ImproperlyConfigured(f"SHOP_FEES: {fees} has two of one name, or less than nothing.")
    return Total(basket.amount, fees)


@cache
def fees_function(path: str) -> Callable[[Basket], Sequence[Fee]] | None:
    """Return the function that a setting names; None if it names none.

    Raises:
        ImportError: there is none of this name.
    """
    found: Callable[[Basket], Sequence[Fee]] | None = import_string(path) if path else None
    return found


def fees_given_back(fees: int, *, whole: bool, handed_over: bool) -> int:
    """Return what goes back of an order's fees with the units that go back: the shop's rule.

    All of it with the whole order, as long as it has not been handed over; nothing with a part of
    an order, or with a return after the hand-over: shipping was done then. A team that decides
    otherwise changes this function. The order keeps what it says in `fee_amount`, and the audit
    compares that with the money.

    Args:
        fees: what the buyer has paid for fees and not got back, in minor units.
        whole: whether nothing of the order is left.
        handed_over: whether the order was handed over.
    """
    return fees if whole and not handed_over else 0
