"""What the shop says, in its two languages; compared with pages and mails letter by letter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shop.specification.order import AWAITING, Money, Order, Sale
from shop.specification.shop import Shop
from shop.tests.specification.translations import CHINESE

ABOUT_SALE = {
    "A & <B>": "The first.",
    "Phone": "The classic of every sale: list price 1999, on sale at 999.",
    "Gamma": "The third.",
}
SALE = {
    "open": "On sale now",
    "not_started": "Coming soon",
    "paused": "Paused",
    "sold_out": "Sold out",
    "may_come_back": "All reserved, may come back",
    "ended": "Ended",
}
ORDER = {
    "awaiting_payment": "Awaiting payment",
    "paid": "Paid",
    "expired": "Expired",
    "cancelled": "Cancelled",
    "fulfilled": "Handed over",
    "refund_pending": "Refund in progress",
    "refunded": "Refunded",
}
ABOUT = {
    "awaiting_payment": "Your order is reserved. Please pay before the deadline.",
    "paid": "Payment received. Thank you for your purchase!",
    "expired": "This order was not paid in time and has expired.",
    "cancelled": "You cancelled this order.",
    "fulfilled": "Your order has been handed over. Enjoy!",
    "refund_pending": "You returned this order. Your refund is in progress.",
    "refunded": "You returned this order, and your payment has been refunded.",
}
HISTORY = {
    "paid": "Paid",
    "paid_late": "Paid after the deadline; the items were still available",
    "fulfilled": "Handed over",
    "expired": "Not paid in time",
    "cancelled": "Cancelled",
    "returned": "Returned",
    "refunded": "Refund complete",
    "payment_failed": "Payment failed; you were not charged",
    "part_cancelled": "Partly cancelled",
    "part_returned": "Partly returned",
    "money_owed": "Paid too late or too much; the excess will be refunded",
    "money_back": "Money refunded",
    "refund_failed": "The refund failed; we are looking into it",
}
SHELVES = {"on_now": "Current sales", "coming_up": "Upcoming sales", "over": "Past sales"}
REFUSED = {
    "invalid_quantity": "The quantity must be a whole number from 1 to 1000.",
    "invalid_cart": (
        "A cart must contain 1 to 20 lines, each for a different sale and all in the same currency."
    ),
    "idempotency_key_reused": "This page was out of date. Please try again.",
    "not_started": "This sale has not started yet.",
    "paused": "This sale is paused.",
    "sold_out": "Sold out.",
    "limit_reached": "You have reached the purchase limit for this sale.",
    "ended": "This sale has ended.",
    "rate_limited": "Too many requests. Please wait a moment and try again.",
    "order_awaiting_payment": "This order has not been paid yet.",
    "order_paid": "This order has already been paid.",
    "order_expired": "The payment deadline for this order has passed.",
    "order_cancelled": "This order has been cancelled.",
    "order_fulfilled": "This order has already been handed over.",
    "order_refund_pending": "This order was returned, and its refund is in progress.",
    "order_refunded": "This order has been refunded.",
    "payment_declined": "The payment was declined. You were not charged.",
    "outcome_unknown": (
        "The payment provider has not answered yet. Please try again in a moment. "
        "You will not be charged or refunded twice."
    ),
}
MAY_COME_BACK = (
    "There are not enough items left right now. Some orders are not final yet; "
    "their items may go back on sale."
)
MAILS = {
    "confirmation": (
        "Reserved for you: {contents}",
        (
            "We are holding your order until {deadline}. Please pay before then; "
            "otherwise the order expires."
        ),
    ),
    "paid": (
        "Order {number} is paid",
        "We have received your payment. Thank you for your purchase!",
    ),
    "expired": (
        "Order {number} has expired",
        "The order was not paid in time. You were not charged.",
    ),
    "refunded": ("Order {number} has been refunded", ABOUT["refunded"]),
    "money_owed": (
        "We are refunding your payment for order {number}",
        (
            "Your payment arrived when it could no longer be used in full: either the deadline had "
            "passed and everything was sold, or you had already cancelled. We refund the excess "
            "automatically; you do not need to do anything."
        ),
    ),
}


class Texts(NamedTuple):
    """What the shop calls orders, by status or by kind of event or mail."""

    order: dict[str, str]
    about: dict[str, str]
    history: dict[str, str]
    mails: dict[str, tuple[str, str]]


WITH_PAYMENTS = Texts(ORDER, ABOUT, HISTORY, MAILS)
NOT_CONFIRMED = "order was not confirmed in time"
WITHOUT_PAYMENTS = Texts(
    ORDER
    | {
        "awaiting_payment": "Being confirmed",
        "paid": "Confirmed",
        "refund_pending": "Returned",
        "refunded": "Returned",
    },
    ABOUT
    | {
        "awaiting_payment": "We are confirming your order.",
        "paid": "Your order is confirmed. Thank you!",
        "expired": f"This {NOT_CONFIRMED} and has expired.",
        "refund_pending": "You returned this order.",
        "refunded": "You returned this order.",
    },
    HISTORY
    | {
        "paid": "Confirmed",
        "expired": "Not confirmed in time",
        "refunded": "Return complete",
    },
    MAILS
    | {
        "paid": ("Order {number} is confirmed", "Thank you for your order!"),
        "expired": ("Order {number} has expired", f"The {NOT_CONFIRMED}."),
        "refunded": ("Order {number} has been returned", "You returned this order."),
    },
)
WHY = "You receive this email because of your order with us."
TWICE = "Clicking twice places only one order."
UNPAID = "Some orders are not final yet. Their items may go back on sale."
OVERDUE = {
    "expiry": (60, "reservations are held past their deadline"),
    "payment": (900, "payments have been pending for too long"),
    "refund": (900, "refunds have been pending for too long"),
    "refused": (-1, "refunds were refused by the provider"),
    "outbox": (300, "messages of the outbox wait"),
    "mail": (300, "mails wait"),
}
"""What the audit reports of things that have waited for more than so many seconds."""
DECIMALS = {"CNY": 2, "EUR": 2, "JPY": 0, "KWD": 3}
SYMBOLS = {"CNY": "CN¥", "EUR": "€", "JPY": "¥", "KWD": "KWD"}
CHINESE_SYMBOLS = {"CNY": "¥", "EUR": "€", "JPY": "JP¥", "KWD": "KWD"}


def said(text: str, *figures: object, chinese: bool, **named: object) -> str:
    """Return a text in one of the two languages, with its figures."""
    return (CHINESE.get(text, text) if chinese else text).format(*figures, **named)


def pending_since(shop: Shop, sale: Sale | None = None) -> dict[str, list[int]]:
    """Return since when each thing waits that operators watch; perhaps of one sale's orders."""
    orders = [o for o in shop.orders if sale in (None, *(line.sale for line in o.lines))]
    late = [o for o in orders if o.status == AWAITING and o.pay_before < shop.now]
    lines = [(o, line) for o in late for line in o.lines if line.kept]
    refunds = [refund for order in orders for refund in order.refunds]
    return {
        "expiry": [o.pay_before for o, line in lines if sale in (None, line.sale)],
        "payment": [p.begun for o in orders for p in o.payments if p.state == "pending"],
        "refund": [refund.begun for refund in refunds if refund.state == "pending"],
        "refused": [refund.begun for refund in refunds if refund.state == "failed"],
    }


def disputed(shop: Shop) -> list[tuple[Order, Money]]:
    """Return payments that were taken although the provider has called them failed."""
    found = [(order, each) for order in shop.orders for each in order.payments]
    return [(o, each) for o, each in found if (each.state, each.there) == ("failed", "done")]


def overdue(now: int, waits: Mapping[str, list[int]]) -> Iterator[str]:
    """Say what the audit reports of things that wait, each since when."""
    for kind, times in waits.items():
        seconds, what = OVERDUE[kind]
        if count := sum(since < now - seconds for since in times):
            yield f"{count} {what}"


def listed_in(sale: Sale) -> str:
    """Return the currency of a product's list price: that of its sale may be another."""
    return "EUR" if sale.currency == "KWD" else sale.currency


def figure(amount: int, currency: str, *, grouped: bool = True) -> str:
    """Write an amount: 1,999.00 for people, 1999.00 for operators."""
    digits = DECIMALS[currency]
    whole, rest = divmod(amount, 10**digits)
    return f"{whole:{',' if grouped else ''}}" + (f".{rest:0{digits}}" if digits else "")


def money(amount: int, currency: str, *, chinese: bool = False) -> str:
    """Return an amount as a page shows it."""
    return (CHINESE_SYMBOLS if chinese else SYMBOLS)[currency] + figure(amount, currency)
