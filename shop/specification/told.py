"""What people are told: amounts, mails, and what operators watch."""

from __future__ import annotations

from collections.abc import Iterator

from shop.specification.order import AWAITING, Order, Sale
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


def waiting(shop: Shop, what: str, sale: Sale | None = None) -> list[int]:
    """Return since when each payment or refund has had no answer; perhaps of a sale's orders."""
    orders = [o for o in shop.orders if sale in (None, *(line.sale for line in o.lines))]
    found = [each for order in orders for each in getattr(order, what)]
    return [each.begun for each in found if each.state == "pending"]


def held(shop: Shop, sale: Sale | None = None) -> list[int]:
    """Return the deadlines that have passed of all lines that are held; perhaps of a sale."""
    late = [o for o in shop.orders if o.status == AWAITING and o.pay_before <= shop.now]
    lines = [(o, line) for o in late for line in o.lines if line.kept and sale in (None, line.sale)]
    return [order.pay_before for order, _ in lines]


def overdue(shop: Shop, sale: Sale | None = None) -> Iterator[str]:
    """Say what the audit, perhaps of one sale, reports as overdue, besides messages."""
    orders = [o for o in shop.orders if sale in (None, *(line.sale for line in o.lines))]
    found = {
        "reservations are held past their deadline": (held(shop, sale), HOLDS),
        "payments have been pending for too long": (waiting(shop, "payments", sale), MONEY),
        "refunds have been pending for too long": (waiting(shop, "refunds", sale), MONEY),
        "refunds were refused by the provider": (
            [r.begun for order in orders for r in order.refunds if r.state == "failed"],
            0,
        ),
    }
    for sentence, (times, most) in found.items():
        if count := sum(since <= shop.now - most for since in times):
            yield f"{count} {sentence}"
