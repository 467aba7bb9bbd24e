"""What people are told: amounts, mails, and what operators watch."""

from __future__ import annotations

from collections.abc import Iterator

from shop.specification.order import AWAITING, Order
from shop.specification.shop import Shop

DECIMALS = {"CNY": 2, "EUR": 2, "JPY": 0, "KWD": 3}
HOLDS, FOLLOW_UPS, MONEY, LAG = 60, 300, 900, 60
"""Seconds after which holds, messages and money are overdue, and the shop is degraded."""


def figure(amount: int, currency: str, *, grouped: bool = True) -> str:
    """Write an amount: 1,999.00 for people, 1999.00 for operators."""
    digits = DECIMALS[currency]
    whole, rest = divmod(amount, 10**digits)
    return f"{whole:{',' if grouped else ''}}" + (f".{rest:0{digits}}" if digits else "")


def mail_figures(order: Order) -> list[str]:
    """Return the amounts of a mail in their order: of each line, the total, and what went back."""
    amounts = [*(line.price * line.quantity for line in order.lines), order.amount]
    amounts += [order.refunded] if order.refunded else []
    return [figure(amount, order.currency) for amount in amounts]


def waiting(shop: Shop, since: int, what: str) -> int:
    """Count the payments or the refunds that have no answer since that second."""
    found = [each for order in shop.orders for each in getattr(order, what)]
    return sum(each.state == "pending" and each.begun <= since for each in found)


def held(shop: Shop, since: int) -> int:
    """Count the lines that are held although their deadline passed at that second."""
    late = [o for o in shop.orders if o.status == AWAITING and o.pay_before <= since]
    return sum(line.kept > 0 for order in late for line in order.lines)


def overdue(shop: Shop) -> Iterator[str]:
    """Say what the audit reports as overdue, besides messages."""
    failed = sum(each.state == "failed" for order in shop.orders for each in order.refunds)
    counts = {
        "reservations are held past their deadline": held(shop, shop.now - HOLDS),
        "payments have been pending for too long": waiting(shop, shop.now - MONEY, "payments"),
        "refunds have been pending for too long": waiting(shop, shop.now - MONEY, "refunds"),
        "refunds were refused by the provider": failed,
    }
    yield from (f"{count} {sentence}" for sentence, count in counts.items() if count)
